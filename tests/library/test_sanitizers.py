"""The C of csrc/ under AddressSanitizer, UndefinedBehaviorSanitizer and valgrind, in both places where Python works.

What any of them finds ends the host, or is printed, and either fails the test.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mqs_dll.contract.abi import ResultCode
from tests.support.embedding import ENVIRONMENT, ROOT, copy_of_package, misuse, program

pytestmark = pytest.mark.slow

SANITIZED = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer", "-g")
MADE_UP = (Path(__file__).parents[1] / "support/made_up_session.py").read_text()
SECONDS = 300

SET_UP = ("setup_basic_callbacks", "setup_image", "setup_process")
WHOLE = (
    *SET_UP,
    *("image_has_queues", "process_has_queues", "get_global_rank", "update_communicator_list"),
    *("setup_communicator_iterator", "get_communicator", "get_comm_group", "next_communicator", "get_communicator"),
    *("setup_operation_iterator:1", "next_operation", "next_operation", "setup_operation_iterator:0", "next_operation"),
    *("next_operation", "setup_operation_iterator:2", "dll_error_string:77", "version_string", "call_back"),
    *("destroy_process_info", "destroy_process_info", "destroy_image_info"),
)
MISTAKES = (
    *("version_string", "setup_image", *SET_UP, "setup_image:null", "setup_process:without-2"),
    *("process_has_queues:null-message", "get_communicator:null-place", "setup_operation_iterator:9", "spoil_infos"),
    *("get_communicator", "setup_basic_callbacks:null", "next_operation"),
)
SESSIONS = {
    "whole": WHOLE,
    "mistakes": MISTAKES,
    "seven sizes": ("seven_sizes", *SET_UP, "process_has_queues"),
    "threads": (*SET_UP, "threads"),
    "fork": (*SET_UP, "fork_host"),
    "many": (*SET_UP[:2], "processes:300", "rounds:300"),
    "jump": (*SET_UP, "jump", "update_communicator_list", *SET_UP[1:], "jump", "from_below", *SET_UP[1:]),
}


@pytest.fixture(scope="module")
def sanitized(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of libmqs.so with made-up communicators, built with both sanitizers."""
    tree = tmp_path_factory.mktemp("sanitized")
    library = copy_of_package(tree, session=MADE_UP)
    for each in ("csrc", "include"):
        shutil.copytree(ROOT / each, tree / each)
    shutil.copy(ROOT / "build.py", tree)
    flags = " ".join(SANITIZED)
    done = subprocess.run(
        [sys.executable, "build.py"],
        cwd=tree,
        env={**os.environ, "CFLAGS": flags, "LDFLAGS": flags},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert all(b"__asan_init" in each.read_bytes() for each in (library, library.with_name("libmqs_python.so")))
    return library


@pytest.mark.parametrize("side", ["embedded", "helper"])
@pytest.mark.parametrize("session", SESSIONS)
def test_the_sanitizers_find_nothing(session: str, side: str, sanitized: Path) -> None:
    """No byte is used that isn't ours, nothing is undefined; and nothing leaks but what an embedded Python keeps."""
    options = f"detect_leaks={int(side == 'helper')}"
    environment = {"MQS_PYTHON": side, "ASAN_OPTIONS": options, "UBSAN_OPTIONS": "print_stacktrace=1"}
    results = misuse(sanitized, SESSIONS[session], environment, flags=SANITIZED)
    assert len(results) == len(SESSIONS[session])
    if session == "whole":
        assert {each["code"] for each in results if "code" in each} > {ResultCode.OK}


@pytest.mark.parametrize("side", ["embedded", "helper"])
def test_valgrind_finds_nothing(side: str, tmp_path: Path) -> None:
    """A thousand images and processes, opened and closed: no leak, and no word that was never set."""
    library, log = copy_of_package(tmp_path, session=MADE_UP), tmp_path / "valgrind"
    command = ["valgrind", "-q", "--leak-check=full", "--errors-for-leak-kinds=definite", "--show-leak-kinds=definite"]
    command += ["--error-exitcode=9", "--run-libc-freeres=no", f"--log-file={log}"]
    done = subprocess.run(
        [*command, str(program("mqs_misuse")), str(library), SET_UP[0], "rounds:1000"],
        env={**ENVIRONMENT, "MQS_PYTHON": side},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, log.read_text()
    assert '"failed":0' in done.stdout
