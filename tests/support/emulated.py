"""A whole machine of another kind that qemu emulates, with a kernel, so that processes can be traced there.

Its files are those of a Debian's packages that were unpacked here. They lie in its memory, and nothing is left of it.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.emulated_init import ANSWER, READY
from tests.support.packaging import SECONDS, done_well, skip_without

KERNEL = "linux-image-cloud-arm64"
"""The package, the smaller one of two; without its modules there is a console, and nothing else is needed."""
EMULATOR = "qemu-system-aarch64"
ENDS_WITH_US = ("setpriv", "--pdeathsig", "KILL")
MACHINE = ("-M", "virt", "-cpu", "max,pauth-impdef=on", "-smp", "1", "-m", "2G", "-nodefaults", "-no-user-config")
"""With a processor that signs return addresses, in a way that is quick to emulate. One: ranks that poll would keep
a second one busy."""
CONSOLE = ("-display", "none", "-no-reboot", "-serial", "stdio")
ARGUMENTS = "console=ttyAMA0 loglevel=1 panic=-1 rdinit=/init"
"""Of the kernel: it keeps its messages to itself, and ends, as qemu then does, where the first process does."""
LEFT_OUT = ("boot", "lib/modules", "usr/include", "usr/share/doc", "usr/share/man", "usr/share/locale")


class EmulatedMachine:
    """One that runs."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        """Wait until it has started."""
        self._process = process
        self._wait(READY)

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a command there, to its end."""
        self._tell(command)
        code, output, errors = json.loads(self._wait(ANSWER))
        return subprocess.CompletedProcess(command, code, output, errors)

    def power_off(self) -> None:
        """End it as one does."""
        self._tell(())
        self._process.wait(SECONDS)

    def _tell(self, command: tuple[str, ...]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()

    def _wait(self, begin: str) -> str:
        """Return the rest of the next line of the console that starts so; fail where it doesn't come."""
        assert self._process.stdout is not None
        lines = []
        timer = threading.Timer(SECONDS, self._process.kill)
        timer.start()
        try:
            for line in self._process.stdout:
                lines.append(line)
                if line.startswith(begin):
                    return line.removeprefix(begin)
        finally:
            timer.cancel()
        raise AssertionError(f"the machine ended, or said nothing for {SECONDS} s: {''.join(lines)[-2000:]}")


@contextmanager
def emulated(root: Path) -> Iterator[EmulatedMachine]:
    """Start a machine with the files below a root directory, its kernel and Python among them; end it."""
    skip_without(EMULATOR, "cpio", "setpriv")
    shutil.copy(Path(__file__).with_name("emulated_init.py"), root / "init")
    (root / "init").chmod(0o755)
    files = root.with_name("files.cpio")
    pruned = " -o ".join(f"-path ./{name}" for name in LEFT_OUT)
    done_well(
        ["sh", "-c", f"cd {root} && find . \\( {pruned} \\) -prune -o -print | cpio -o -H newc --quiet > {files}"]
    )
    (kernel,) = root.glob("boot/vmlinuz-*")
    command = [*ENDS_WITH_US, EMULATOR, *MACHINE, *CONSOLE, "-kernel", str(kernel), "-initrd", str(files)]
    process = subprocess.Popen(
        [*command, "-append", ARGUMENTS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, errors="replace"
    )
    try:
        machine = EmulatedMachine(process)
        yield machine
        machine.power_off()
    finally:
        process.kill()
        process.communicate()
