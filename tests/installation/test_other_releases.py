"""The wheel of `tools/wheel` inside other releases of Debian, as in containers whose host has no libmqs.

Each job is read from outside, too.
"""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.support.jobs import Compiler, running
from tests.support.matrix import Matrix, Place
from tests.support.mpis import Mpi, mpis_inside
from tests.support.packaging import PIP, SECONDS, done_well, python_of, wheel_of_tools
from tests.support.places import HANG, compared, until_proved
from tests.support.releases import OF_LIBMQS, RELEASES
from tests.support.targets import ROOT

pytestmark = [pytest.mark.root, pytest.mark.slow]
MPIS = [mpi for mpi in mpis_inside() if not mpi.library]
TOO_OLD = RELEASES["bullseye"]
"""Its Python is 3.9."""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the wheel of this checkout."""
    return wheel_of_tools(tmp_path_factory.mktemp("wheel"))


def said(*command: object) -> str:
    """Return what a command prints, whose exit code may be a verdict."""
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.stdout, done.stderr
    return done.stdout


def check_outside(pid: int, mpi: Mpi, matrix: Matrix) -> None:
    """Compare what this machine's ``mqs`` reports of the hang inside."""
    command = (sys.executable, "-m", "mqs_dll", "job", pid, "--json")
    matrix.record_place(Place.RELEASE, compared(until_proved(lambda: said(*command)), mpi))


def mqs_inside(mpi: Mpi, packages: Path) -> list[str]:
    """Return the start of a command that runs ``mqs`` inside, by the Python there and packages that lie here."""
    return [*mpi.inside, "env", f"PYTHONPATH={packages}", "python3", "-m", "mqs_dll"]


@pytest.mark.parametrize("mpi", [mpi for mpi in MPIS if mpi.package != TOO_OLD], ids=lambda mpi: mpi.name)
def test_a_job_in_another_release_is_read_from_outside_and_inside(
    mpi: Mpi, wheel: Path, compiler: Compiler, tmp_path: Path, matrix: Matrix
) -> None:
    """Inside by that release's Python, for which pip has a wheel of all that `mqs` takes."""
    with running(compiler, mpi, mpi.transports[0], HANG.program, HANG.ranks) as job:
        pid = job.wait_until_ready()[1]["pid"]
        check_outside(job.launcher.pid, mpi, matrix)
        version = python_of(Path(mpi.inside[-1]))
        options = ("--quiet", "--only-binary=:all:", f"--python-version={version}", f"--target={tmp_path}")
        done_well([*PIP, "install", *options, str(wheel)])
        mqs = mqs_inside(mpi, tmp_path)
        report = until_proved(lambda: said(*mqs, "job", job.launcher.pid, "--json"))
        shown = said(*mqs, "show", pid, "--dll", tmp_path / "mqs_dll/libmqs.so", "--stack")
        matrix.record_place(Place.RELEASE_INSIDE, compared(report, mpi))
        assert f"(Python {version}." in shown
        assert re.search(r"receives +pending +2 +2 +7777 +400 ", shown)
        assert "main in tag_mismatch at " in shown


@pytest.mark.parametrize("mpi", [mpi for mpi in MPIS if mpi.package == RELEASES["trixie"]], ids=lambda mpi: mpi.name)
def test_debian_s_own_packages_are_enough(mpi: Mpi, wheel: Path, compiler: Compiler, tmp_path: Path) -> None:
    """As docs/install.md says of Debian 13: of PyPI nothing but libmqs; a job gets its verdict all the same."""

    def inside(*command: object) -> str:
        return done_well([*mpi.inside, *map(str, command)])

    assert f"\n    sudo apt install {' '.join(OF_LIBMQS)}\n" in (ROOT / "docs/install.md").read_text()
    environment = tmp_path / "venv"
    inside("python3", "-m", "venv", "--system-site-packages", environment)
    inside(environment / "bin/pip", "install", "--no-index", "--no-deps", wheel)
    with running(compiler, mpi, mpi.transports[0], HANG.program, HANG.ranks) as job:
        pid = job.wait_until_ready()[1]["pid"]
        mqs = (*mpi.inside, environment / "bin/mqs")
        compared(until_proved(lambda: said(*mqs, "job", job.launcher.pid, "--json")), mpi)
        assert "main in tag_mismatch at " in said(*mqs, "show", pid, "--stack")
    assert "drgn 0.0.31" in said(*mqs, "--version")


@pytest.mark.parametrize("mpi", [mpi for mpi in MPIS if mpi.package == TOO_OLD], ids=lambda mpi: mpi.name)
def test_a_python_inside_that_is_too_old_says_so(
    mpi: Mpi, wheel: Path, compiler: Compiler, tmp_path: Path, matrix: Matrix
) -> None:
    """And that it can be read from outside, as it is; pip has refused the wheel before."""
    with running(compiler, mpi, mpi.transports[0], HANG.program, HANG.ranks) as job:
        job.wait_until_ready()
        check_outside(job.launcher.pid, mpi, matrix)
        options = (f"--python-version={python_of(Path(mpi.inside[-1]))}", "--no-deps", f"--dest={tmp_path}")
        refused = subprocess.run([*PIP, "download", *options, wheel], capture_output=True, text=True, check=False)
        assert refused.returncode != 0
        assert "not in '>=3.10'" in refused.stderr
        zipfile.ZipFile(wheel).extractall(tmp_path)
        command = [*mqs_inside(mpi, tmp_path), "job", str(job.launcher.pid)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (3, "")
    assert re.fullmatch(r"mqs: this is Python 3.9, and libmqs needs 3.10 or newer.\n.* From outside .*\n", done.stderr)
