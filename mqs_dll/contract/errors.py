"""Every way in which libmqs fails: what happened, what likely caused it, what to do next.

A class here is a result code of the C interface (``code``), a sentence for the user (``help``) and, for the
command line, nothing more: cli.py prints ``str(error)`` and ``error.help`` and picks the exit code in one place.
Codes below 100 are those of the MQS standard. A code, once released, keeps its meaning.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from mqs_dll.contract.abi import ResultCode


class MqsError(Exception):
    """The root: something that libmqs was asked for could not be done.

    ``str(error)`` is one sentence that says what happened, with the address, list or symbol concerned.
    """

    code: ClassVar[int] = ResultCode.FIRST_USER_CODE
    help: ClassVar[str] = "Please report this with the log that MQS_LOG=FILE writes."


# ---------------------------------------------------------------- codes of the C interface


class NoInformation(MqsError):
    """The process is fine, but what was asked for can't be seen in it (mqs_no_information)."""

    code = ResultCode.NO_INFORMATION
    help = "The message names the cause, and the remedy where there is one."

    def __init__(self, what: str, remedy: str = "") -> None:
        super().__init__(f"{what}; {remedy}" if remedy else what)
        self.remedy = remedy
        """What makes it visible: "run the job with --mca pml ob1 to see them"; empty where nothing does."""


class StartError(MqsError):
    """The Python inside libmqs.so did not start; csrc/python_start.c raises it as a bare code."""

    code = 101
    help = "Reinstall libmqs for a Python whose library is present (`mqs doctor` and MQS_LOG=FILE say more)."


class ForeignPythonError(MqsError):
    """The host already runs a Python of another version; csrc/python_start.c raises it as a bare code."""

    code = 102
    help = "Install libmqs for the Python version that the debugger itself uses."


class InternalError(MqsError):
    """An exception that nobody foresaw, in the Python core or at its border to C: a bug in libmqs."""

    code = 103
    help = "This is a bug in libmqs; please report it with the log that MQS_LOG=FILE has libmqs.so write."


class BadCallError(MqsError):
    """The debugger called in the wrong order, with a NULL pointer, or with a handle that is not ours."""

    code = 104
    help = "The caller has to follow the order of calls of the MQS interface."


class MissingCallbackError(MqsError):
    """The debugger left out a callback that can't be done without."""

    code = 105
    help = "The caller has to give all callbacks of mqs_interface.h but dprints, errorstring and sizeof."


class UnknownMpiError(MqsError):
    """The process has no MPI that libmqs knows."""

    code = 106
    help = "libmqs knows Open MPI, MPICH and Intel MPI; check that the process is a rank, not its launcher or a shell."


class NotInitializedError(MqsError):
    """The process has not finished MPI_Init yet."""

    code = 107
    help = "Let the process run past MPI_Init, then ask again."


class FinalizedError(MqsError):
    """The process has called MPI_Finalize: its communicators and queues are gone."""

    code = 108
    help = "Look at a rank that is still between MPI_Init and MPI_Finalize."


class LayoutError(MqsError):
    """No layout of the MPI's structs fits this process."""

    code = 109
    help = "Run `mqs calibrate PID`, which learns the layouts of that process's MPI, or install its debug information."


class TargetReadError(MqsError):
    """Memory of the target could not be read."""

    code = 110
    help = "The pointer may be wild because the process was stopped in the middle of an update: continue and retry."

    def __init__(self, address: int, size: int, what: str = "memory", why: str = "") -> None:
        super().__init__(f"cannot read {size} bytes of {what} at {address:#x} in the target{why and f': {why}'}")
        self.address = address
        self.size = size


class BrokenStructureError(MqsError):
    """What was read contradicts itself: a list that is a loop, a count that is absurd, an object of another class."""

    code = 111
    help = "The process may have been stopped in the middle of an update: let it run for a moment and retry."


class WordSizeError(MqsError):
    """The target's words are not the 64-bit words that libmqs reads."""

    code = 112
    help = "libmqs reads 64-bit little-endian processes (x86_64, aarch64)."


class TooMuchError(MqsError):
    """One call would have to read more, or go more steps, than libmqs lets any do."""

    code = 113
    help = "The process's memory may be damaged: compare with another rank; other calls and communicators still answer."

    def __init__(self, done: str) -> None:
        super().__init__(f"there is more to read than one call may: it was given up after {done}")


# ---------------------------------------------------------------- the debugger side only


class ProcessError(MqsError):
    """A process can't be read. Never crosses the C interface."""

    code = 150
    help = "Check the PID with `ps`; ranks are children of mpiexec or of its daemons."


class NoSuchProcessError(ProcessError):
    """There is no process with that PID, or it has exited."""

    code = 151


class NotPermittedError(ProcessError):
    """The kernel forbids reading or stopping the process; access.py tells why, by the classes below."""

    code = 152
    help = (
        "Run mqs as the process's user, with the same rights and in the same container, or as root outside of all "
        "containers; `mqs doctor` without a PID says what this machine allows."
    )


class AlreadyTracedError(ProcessError):
    """Another debugger holds the process."""

    code = 153
    help = "Detach the other debugger first."


class StopError(ProcessError):
    """The process could not be stopped in time."""

    code = 154
    help = "A thread may sleep in the kernel (state D); retry later."


class LimitError(ProcessError):
    """Processes stood still for as long as they may, and were let go before all was read."""

    code = 155
    help = (
        "What reads them hangs, or takes long: --limit SECONDS lets them stand for longer, mqs without a library "
        "(--dll, MQS_DLL) may be quicker, and `mqs job --no-stop` stops nothing."
    )


class ForeignError(ProcessError):
    """Root was about to parse another user's files. Never crosses the C interface."""

    code = 156
    help = "Look at it as that user, or with the command `mqs`, which gives up root for that."


class NoMainThreadError(ProcessError):
    """A process's main thread has ended, and others go on: /proc has its memory no more."""

    code = 157
    help = "Have the main thread wait for the others (pthread_join) instead of ending by pthread_exit."


# ---------------------------------------------------------------- why the kernel keeps a process closed


class OtherUserError(NotPermittedError):
    """The process is another user's."""

    code = 250
    help = "Have that user run mqs (`mqs job --save FILE` keeps what it reads for you), or root."


class OtherGroupError(NotPermittedError):
    """The process is ours, but runs with another group: the kernel compares both (ptrace(2))."""

    code = 251
    help = "Run mqs with that group, by `newgrp GROUP` or `sg GROUP -c 'mqs ...'`; or as root."


class ProtectedError(NotPermittedError):
    """The kernel protects the process from its own user: it isn't dumpable (prctl(2), PR_SET_DUMPABLE)."""

    code = 252
    help = (
        "Run the job with a copy of its program that you may read, without set-user-ID bit and file capabilities, and "
        "that doesn't call prctl(PR_SET_DUMPABLE, 0); as it is, only root can read it."
    )


class MoreCapableError(NotPermittedError):
    """The process is ours, but has capabilities that we don't have."""

    code = 253
    help = (
        "Start mqs as the process was started, with the same capabilities (in a container: by its own exec command); "
        "or give it CAP_SYS_PTRACE; or run it as root outside of the container."
    )


class RootWithoutPtraceError(NotPermittedError):
    """The process is another user's, and we are root without CAP_SYS_PTRACE, as in most containers."""

    code = 254
    help = (
        "Run mqs as the process's user, who needs no capability; or outside of the container; or start the container "
        "with --cap-add SYS_PTRACE."
    )


class OtherNamespaceError(NotPermittedError):
    """The process is in a user namespace over which we have no rights: in another container, or outside of ours."""

    code = 255
    help = (
        "Run mqs outside of all containers, as the user who started them; or inside of the process's own container "
        "(podman exec, apptainer exec instance://NAME)."
    )


class AncestorsAloneError(NotPermittedError):
    """Yama lets only a process's ancestors attach to it: ptrace_scope is 1."""

    code = 256
    help = (
        'Start the job with what `mqs env` prints (eval "$(mqs env)"), which lets in what runs as you; a job that runs '
        "already, only root can read: sudo mqs, or sysctl kernel.yama.ptrace_scope=0."
    )


class RootAloneError(NotPermittedError):
    """Yama lets only root attach: ptrace_scope is 2."""

    code = 257
    help = "Have root run mqs, which then reads with your rights; or root sets sysctl kernel.yama.ptrace_scope=1 or 0."


class NobodyMayAttachError(NotPermittedError):
    """Yama lets nobody attach, and that can't be taken back: ptrace_scope is 3."""

    code = 258
    help = (
        "Have the ranks write core files (ulimit -c unlimited, then kill -QUIT) for `mqs job --core`; only a start of "
        "the machine with another kernel.yama.ptrace_scope changes this, not even root can."
    )


class FilteredError(NotPermittedError):
    """A seccomp filter keeps the system call from us, while the process itself is open to us."""

    code = 259
    help = (
        "`mqs job --no-stop` needs no such call; or run mqs outside of the container; or start that with "
        "--cap-add SYS_PTRACE or --security-opt seccomp=unconfined."
    )


class SelinuxError(NotPermittedError):
    """All else allows it, and SELinux enforces a policy."""

    code = 260
    help = (
        "Run mqs in the process's own context or container; the administrator finds the denial by "
        "`ausearch -m avc -ts recent`, and may allow it (setsebool deny_ptrace off)."
    )


class ApparmorError(NotPermittedError):
    """All else allows it, and AppArmor confines the process or us."""

    code = 261
    help = (
        "Run mqs under the process's own profile, inside of its container; or start that with "
        "--security-opt apparmor=unconfined; the administrator finds the denial by `dmesg | grep apparmor`."
    )


class HiddenProcessError(NotPermittedError):
    """/proc is mounted with hidepid, and shows us nothing of the process."""

    code = 262
    help = (
        "Run mqs as the process's user or as root; the administrator may add you to the group that /proc's option gid= "
        "names."
    )


# ---------------------------------------------------------------- what isn't a process


class DllError(MqsError):
    """An MQS library can't be loaded, or lacks an entry point. Never crosses the C interface."""

    code = 160
    help = (
        "Without --dll and MQS_DLL mqs reads by itself; else name another library: `mqs dll-path` prints where "
        "libmqs.so is."
    )


class ForeignLibraryError(DllError):
    """An MQS library answered with a result code; ``code`` is that library's own."""

    def __init__(self, call: str, code: int, text: str) -> None:
        super().__init__(f"{call} failed with code {code}: {text}")
        self.code = code  # type: ignore[misc]  # this one instance speaks for another library's code


class DemoError(MqsError):
    """The job of `mqs demo` can't be run. Never crosses the C interface."""

    code = 170
    help = "Install the MPI that comes with the extra: pip install 'libmqs[demo]'; or put Open MPI's mpiexec into PATH."


class CalibrationError(MqsError):
    """The layout of an MPI can't be learned from a program that runs under it. Never crosses the C interface."""

    code = 180
    help = "`mqs calibrate --help` says what it needs; --keep DIR keeps the files of the runs."


class ContainedMpiError(CalibrationError):
    """The MPI of a process is in a container, where nothing is run for somebody outside."""

    code = 181
    help = (
        "Run `mqs calibrate --out FILE.json` inside (`apptainer exec IMAGE mqs calibrate ...`), where libmqs has to be "
        "installed too, and copy FILE.json into that folder."
    )


class FileError(MqsError):
    """A file is no library and no program that can be read. Never crosses the C interface."""

    code = 190
    help = "Name the MPI's library itself, like libmpi.so.40 or libmpi.so.12; `ldd PROGRAM` prints where that is."


class SavedFileError(MqsError):
    """A saved job can't be written, or a file is no saved job. Never crosses the C interface."""

    code = 200
    help = "`mqs job --save FILE` writes such files; one that was cut off or changed can't be mended."


class ReportError(MqsError):
    """A report can't be drawn, or not be written where it should go. Never crosses the C interface."""

    code = 230
    help = "Name another file, or print the text, --json or --dot instead, which need nothing but standard output."


class CoreError(MqsError):
    """A core file can't be read. Never crosses the C interface."""

    code = 210
    help = (
        "It takes a whole core file, the kernel's or gcore's (systemd's: `coredumpctl dump PID -o FILE`), and the "
        "program and libraries of its process: --sysroot DIR says where copies of them lie."
    )


class NotCoreError(CoreError):
    """A file is no core file, though it can be read."""

    code = 212


class MixedRanksError(CoreError):
    """Ranks that were given as those of one job, in core files or a debugger, are of several, or two are the same."""

    code = 211
    help = "Give the ranks of one job, each of them once; older core files may lie among the new."


class JobError(MqsError):
    """There is no such MPI job on this machine, or there are several. Never crosses the C interface."""

    code = 240
    help = "`mqs job` lists the jobs; name one by the PID of its mpiexec or of one of its ranks."


class NodesError(MqsError):
    """Other machines can't be reached from here, or were named wrongly. Never crosses the C interface."""

    code = 241
    help = (
        "docs/clusters.md says how nodes are named and reached; if ClusterShell is missing: pip install ClusterShell."
    )


def all_errors() -> Iterator[type[MqsError]]:
    """Yield every class of the tree, parents first."""
    pending: list[type[MqsError]] = [MqsError]
    while pending:
        cls = pending.pop(0)
        yield cls
        pending.extend(cls.__subclasses__())
