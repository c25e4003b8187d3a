"""What leads from the part of a job on this machine to its other machines: marks that all parts share, and hosts.

Sources: the arguments that mpirun and prterun give orted and prted (orte's and PRRTE's plm/rsh, ess and oob), those of
hydra's proxies (pm/hydra/mpiexec), the names of PRRTE's namespaces (prterun-HOST-PID@N), ssh(1), and Slurm's srun(1).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePath

from mqs_dll.debugger.job.find.markers import job_of_world
from mqs_dll.debugger.job.find.processes import Processes
from mqs_dll.debugger.job.find.proctable import read_proctable
from mqs_dll.debugger.proc import Stat

_MARKS = {
    "hydra": re.compile(r"--control-port (\S+)"),
    "pmix": re.compile(r'ess_base_(?:jobid|nspace) "?([^"\s]+)'),
}
"""What launchers pass to the daemons of one job, and no other's."""

_LAUNCHER_HOSTS = (
    re.compile(r'ess_base_nspace "?prterun-(\S+)-\d+@'),
    re.compile(r'(?:orte|prte)_hnp_uri "?[^;\s]+;tcp6?://([^,:\s"]+)'),
    re.compile(r"--control-port \[?([^\s\]]+?)\]?:\d+(?:\s|$)"),
)
"""Where their launcher runs, by name or address; the first that says so counts."""

_SLURM_JOB = re.compile(r"[0-9_]{1,40}")

_SSH_OPTIONS_WITH_VALUE = frozenset("BbcDEeFIiJLlmOoPpQRSWw")
_NODE_LIST = re.compile(r"\s(?:--nodelist[= ]|-w ?)(\S+)")


def marks_of(processes: Processes, above: Sequence[Stat], ranks: Iterable[Stat]) -> frozenset[str]:
    """Return what the parts of a job on all machines have in common.

    Args:
        processes: of this machine.
        above: the job's launchers and daemons here.
        ranks: its ranks here.
    """
    marks = {f"{kind} {_normal(kind, value)}" for kind, value in _told(processes, above)}
    for rank in ranks:
        environment = processes.environment(rank.pid)
        if "PMIX_NAMESPACE" in environment:
            marks.add(f"pmix {job_of_world(environment['PMIX_NAMESPACE'])}")
        elif not marks and "SLURM_STEP_ID" in environment:
            marks.add(f"step {slurm_job(environment)}.{environment['SLURM_STEP_ID']}")
    return frozenset(marks)


def slurm_job(environment: Mapping[str, str]) -> str:
    """Return the number of the Slurm job that a process belongs to, empty where it belongs to none."""
    number = environment.get("SLURM_JOB_ID") or environment.get("SLURM_JOBID") or ""
    return number if _SLURM_JOB.fullmatch(number) else ""  # it becomes a part of srun's command


def hosts_of(processes: Processes, above: Sequence[Stat]) -> tuple[str, ...]:
    """Return the machines that a job's launchers and daemons here name; ``above`` is as marks_of has it.

    A name may stand for several: it is as Slurm writes lists of hosts.
    """
    found: list[str] = []
    launchers = [each for each in above if processes.is_launcher(each.pid)]
    for each in above:
        for child in processes.children(each.pid):
            found.extend(_started_on(processes, child))
    if not launchers:
        lines = [" ".join(processes.arguments(each.pid)) for each in above]
        found.extend(host for line in lines if (host := _launcher_host(line)))
    return tuple(dict.fromkeys(found))


def claimed_hosts(processes: Processes, started: Iterable[Stat]) -> tuple[str, ...]:
    """Return the machines of the Slurm step that ranks, or the daemons above them, say they were started by."""
    return tuple(dict.fromkeys(_of_step(processes, started)))


def _told(processes: Processes, above: Sequence[Stat]) -> Iterator[tuple[str, str]]:
    """Yield the marks in the arguments of daemons, and of what starts daemons on other machines."""
    for each in above:
        if processes.is_launcher(each.pid) and "prterun" in PurePath(processes.executable(each.pid)).name:
            environments = (processes.environment(child.pid) for child in processes.children(each.pid))
            yield from (("pmix", name) for every in environments if (name := every.get("PMIX_NAMESPACE")))
        for process in (each, *processes.children(each.pid)):
            line = " ".join(processes.arguments(process.pid))
            for kind, pattern in _MARKS.items():
                if match := pattern.search(line):
                    yield kind, match[1]


def _normal(kind: str, value: str) -> str:
    return job_of_world(value) if kind == "pmix" else value


def _launcher_host(line: str) -> str:
    return next((match[1] for pattern in _LAUNCHER_HOSTS if (match := pattern.search(line))), "")


def _of_step(processes: Processes, started: Iterable[Stat]) -> Iterator[str]:
    for process in started:
        environment = processes.environment(process.pid)
        parent = processes.get(process.parent)
        if parent is not None and parent.name == "slurmstepd" and "SLURM_STEP_NODELIST" in environment:
            yield environment["SLURM_STEP_NODELIST"]


def _started_on(processes: Processes, process: Stat) -> Iterator[str]:
    """Yield where a process runs a daemon: ssh on one machine, srun on many."""
    arguments = processes.arguments(process.pid)
    name = PurePath(arguments[0]).name if arguments else ""
    if name in ("ssh", "rsh"):
        host = _ssh_host(arguments[1:])
        if host:
            yield host
    elif name == "srun":
        match = _NODE_LIST.search(" ".join(arguments))
        table = () if match else read_proctable(process.pid)  # of the daemons: on all nodes of the allocation
        yield from [match[1]] if match else (entry.host for entry in table)


def _ssh_host(arguments: Sequence[str]) -> str:
    rest = iter(arguments)
    for argument in rest:
        if not argument.startswith("-"):
            return argument.rpartition("@")[2]
        if len(argument) == 2 and argument[1] in _SSH_OPTIONS_WITH_VALUE:
            next(rest, "")
    return ""
