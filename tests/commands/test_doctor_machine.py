"""mqs doctor without a process: whether queues, stacks and proofs can be had on this machine."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import mqs_dll.report
from mqs_dll.commands.doctor import machine
from mqs_dll.commands.doctor.machine import circumstances, refusal_to_count
from mqs_dll.contract import errors
from mqs_dll.debugger.access import Rules, Shown
from mqs_dll.debugger.proc import read_stat
from tests.support.closed import SYS_PTRACE, become, enter_users, forbid_counting, forbid_ptrace, hide_processes
from tests.support.containers import skip_where_python_is_roots_own
from tests.support.targets import ROOT, wait_until

SCHEMA = json.loads((Path(mqs_dll.report.__file__).parent / "machine-schema-1.json").read_text())
MQS = ["-c", "import sys; from mqs_dll.commands.cli import main; sys.exit(main())", "doctor"]
PARTS = ("queues", "stacks", "proofs")
WHOLE = dict.fromkeys(PARTS, "whole")


def doctor(
    *prepare: Callable[[], None],
    code: int,
    python: str | Path = sys.executable,
    environment: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return what the command prints in a child that has prepared itself, and that has this exit code."""

    def prepared() -> None:
        for each in prepare:
            each()

    said = subprocess.run(
        [python, *MQS, "--json"],
        preexec_fn=prepared,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, **(environment or {})},
    )
    assert said.returncode == code, said.stdout + said.stderr
    document: dict[str, Any] = json.loads(said.stdout)
    jsonschema.validate(document, SCHEMA)
    return document


def seen(document: Mapping[str, Any]) -> dict[str, str]:
    """Return how much can be had of each part."""
    return {part: document[part]["seen"] for part in PARTS}


def holding(document: Mapping[str, Any]) -> dict[str, str]:
    """Return what holds, with its words."""
    return {each["name"]: each["words"] for each in document["circumstances"] if each["holds"]}


def test_a_machine_on_which_everything_can_be_had() -> None:
    """Exit code 0: all three were tried, and worked; the text has the same."""
    document = doctor(code=0)
    assert (document["verdict"], seen(document), document["remedies"]) == ("whole", WHOLE, [])
    said = subprocess.run([sys.executable, *MQS], capture_output=True, text=True, timeout=120, check=False)
    assert (said.returncode, said.stderr) == (0, "")
    for part in PARTS:
        assert f"  {part}: yes; {document[part]['why']}\n" in said.stdout
    for each in document["circumstances"]:
        assert f"  {each['name']}: {each['words']}\n" in said.stdout


def test_a_filter_that_forbids_ptrace_leaves_the_queues() -> None:
    """Exit code 1: processes can't be stopped, so there are neither stacks nor proofs, and the remedy is ptrace's."""
    document = doctor(forbid_ptrace, code=1)
    assert (document["verdict"], seen(document)) == (
        "partly",
        {"queues": "whole", "stacks": "nothing", "proofs": "nothing"},
    )
    assert "a seccomp filter forbids us ptrace" in document["stacks"]["why"]
    assert document["remedies"] == [{"what": errors.FilteredError.help, "why": "for stacks, proofs"}]
    assert holding(document)["seccomp"] == "a filter is at work; no_new_privs is set: sudo can't help here"


def test_a_filter_that_forbids_counting_costs_some_proofs() -> None:
    """Exit code 1: what can't be proved is named."""
    document = doctor(forbid_counting, code=1)
    assert (document["verdict"], seen(document)) == ("partly", WHOLE | {"proofs": "partly"})
    assert document["proofs"]["why"] == (
        "returns from calls can't be counted, so most cycles on MPICH are suspected, not proved: a seccomp filter "
        "forbids perf_event_open, most likely that of a container"
    )


@pytest.mark.root
def test_a_machine_on_which_nothing_can_be_had() -> None:
    """Exit code 3: a Python that may be run but not read protects its processes from their user."""
    skip_where_python_is_roots_own()
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        python = Path(shutil.copy(Path(sys.executable).resolve(), name))
        python.chmod(0o711)
        places = os.pathsep.join([str(ROOT), *(each for each in sys.path if each.endswith("-packages"))])
        document = doctor(become, code=3, python=python, environment={"PYTHONPATH": places, "HOME": "/"})
    assert (document["verdict"], document["user"]) == ("nothing", "nobody")
    assert seen(document) == dict.fromkeys(PARTS, "nothing")
    assert "it is protected (not dumpable)" in document["queues"]["why"]
    assert document["remedies"] == [{"what": errors.ProtectedError.help, "why": "for queues, stacks, proofs"}]


@pytest.mark.root
def test_a_user_without_root_has_what_is_that_users_own() -> None:
    """Also in a container, and where /proc hides what is others'; what is closed then, is said."""
    skip_where_python_is_roots_own()
    document = doctor(lambda: hide_processes("2"), become, code=0)
    assert (document["user"], seen(document)) == ("nobody", WHOLE)
    assert {"/proc", "other users' processes"} <= holding(document).keys()
    document = doctor(become, enter_users, code=0)
    assert holding(document)["user namespace"] == "a container's: what runs outside of it is closed"


def test_what_is_tried_on_is_no_child_of_ours() -> None:
    """Yama would let us attach to our own children, and not to ranks; it ends when it has served."""
    with machine._somebody() as pid:
        stat = read_stat(pid)
        assert stat is not None
        assert stat.parent != os.getpid()
    wait_until(lambda: (stat := read_stat(pid)) is None or stat.gone)


# ---------------------------------------------------------------- what other kernels would show

OURS = Shown("mqs", (1000,) * 3, (1000,) * 3, 1000, id_map="0 0 4294967295")
ROOT_HERE = OURS._replace(users=(0,) * 3, permitted=SYS_PTRACE, effective=SYS_PTRACE)


def said(ours: Shown = OURS, rules: Rules | None = None, hiding: str = "") -> dict[str, tuple[bool, str]]:
    """Return whether each obstacle holds, and its remedy."""
    found = circumstances(ours, rules or Rules(), hiding, 2)
    return {each.name: (each.holds, each.remedy) for each in found}


@pytest.mark.parametrize(
    ("scope", "kind"), [(1, errors.AncestorsAloneError), (2, errors.RootAloneError), (3, errors.NobodyMayAttachError)]
)
def test_each_scope_of_yama_has_its_remedy(scope: int, kind: type[errors.MqsError]) -> None:
    """It holds for users, and for root at 3 alone. Never seen on such a kernel."""
    assert said(rules=Rules(yama=scope))["Yama"] == (True, kind.help)
    assert said(ROOT_HERE, Rules(yama=scope))["Yama"][0] is (scope == 3)
    assert said(rules=Rules(yama=0))["Yama"] == said()["Yama"] == (False, "")


def test_security_modules_and_hidden_processes_hold_where_they_are_at_work() -> None:
    """Never seen on a kernel with these modules."""
    name = "SELinux, AppArmor"
    assert said()[name] == (False, "")
    assert said(rules=Rules(selinux_enforces=True))[name] == (True, errors.SelinuxError.help)
    assert said(OURS._replace(label="docker-default (enforce)"))[name] == (True, errors.ApparmorError.help)
    assert said(OURS._replace(label="unconfined"))[name] == (False, "")
    assert said(hiding="invisible")["/proc"] == (True, errors.HiddenProcessError.help)
    assert said(ROOT_HERE, hiding="invisible")["/proc"] == (False, "")
    assert said(ROOT_HERE._replace(effective=0))["other users' processes"] == (True, errors.RootWithoutPtraceError.help)


def test_perf_event_paranoid_is_named_where_it_matters() -> None:
    """That is where the kernel has refused, and no filter has. Never seen on such a kernel."""
    refused, lacking = OSError(errno.EACCES, "Permission denied"), OSError(errno.ENODEV, "No such device")
    words = ("kernel.perf_event_paranoid is 4", "have root run mqs, or allow it by sysctl kernel.perf_event_paranoid=2")
    assert refusal_to_count(refused, OURS, 4) == words
    assert refusal_to_count(refused, OURS._replace(seccomp=2), 4)[0].startswith("a seccomp filter")
    assert refusal_to_count(refused, OURS, 2) == ("the kernel forbids perf_event_open (Permission denied)", "")
    assert refusal_to_count(lacking, OURS, 4) == ("the kernel has no breakpoint for it (No such device)", "")
