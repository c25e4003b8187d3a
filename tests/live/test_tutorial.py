"""docs/tutorial.md, as a reader follows it; and the site, with pictures of what the reader sees."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from rich.console import Console

from mqs_dll.commands.run.command import EXIT_STUCK
from mqs_dll.job import saved
from mqs_dll.report import html, svg, text
from mqs_dll.verdict.conclude import conclude
from mqs_dll.verdict.results import Outcome
from tests.support.jobs import Job, launch
from tests.support.mpis import Mpi, find_mpis, skip_without
from tests.support.packaging import done_well
from tests.support.places import until_proved
from tests.support.targets import ROOT

pytestmark = pytest.mark.mpi
PAGE = (ROOT / "docs/tutorial.md").read_text()
PROGRAM, CURE = (textwrap.dedent(code) for code in re.findall(r"^```c\n([\s\S]*?)^```$", PAGE, re.MULTILINE))
SENDS_AND_RECEIVES = re.compile(r"^ +MPI_Send\(.*\n +MPI_Recv\(.*\n", re.MULTILINE)
MPIS = [mpi for mpi in find_mpis() if mpi.name in ("openmpi-debian", "mpich-debian", "mpich-4.3.2-pypi")]
MQS = (sys.executable, "-m", "mqs_dll")
LITTLE, MUCH = re.findall(r"^    mpiexec -n 4 ./ring (\d+)$", PAGE, re.MULTILINE)


def compiled(mpi: Mpi, program: str, folder: Path) -> Path:
    """Return ``./ring``, as the page has it made."""
    (folder / "ring.c").write_text(program)
    assert "mpicc -g ring.c -o ring" in PAGE
    done_well(["env", f"--chdir={folder}", str(mpi.mpicc), "-g", "ring.c", *mpi.flags, "-o", "ring"], mpi.environment)
    return folder / "ring"


def mpiexec(mpi: Mpi, ring: Path, cells: str) -> list[str]:
    """Return the command that starts it."""
    return [str(mpi.mpiexec), *mpi.options, *mpi.transports[0].arguments, "-n", "4", str(ring), cells]


def variables(mpi: Mpi) -> Mapping[str, str]:
    """Return the environment that it takes."""
    return {**mpi.environment, **mpi.transports[0].environment}


@contextmanager
def hanging(mpi: Mpi) -> Iterator[int]:
    """Start it with many cells, and give the launcher's PID; at the end kill all."""
    with tempfile.TemporaryDirectory(prefix="mqs-ring-") as name:  # whose name is the job's tag, and no other's
        folder = Path(name)
        launcher = launch(mpiexec(mpi, compiled(mpi, PROGRAM, folder), MUCH), folder, variables(mpi))
        job = Job(folder, launcher, mpi, mpi.transports[0], "ring", 4, 0)
        try:
            yield launcher.pid
        finally:
            job.end()


@pytest.fixture(scope="module", params=MPIS, ids=lambda mpi: mpi.name)
def hang(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return what was saved of the page's hang."""
    skip_without(request.param)
    file = tmp_path_factory.mktemp("saved") / "hang.json.gz"

    with hanging(request.param) as launcher:

        def look() -> str:  # by its PID: another test may run a program of that name, too
            command = [*MQS, "job", str(launcher), "--json", "--save", str(file)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            return done.stdout or '{"outcome": ""}'  # before the ranks are in MPI

        until_proved(look)
    return file


def test_the_report_is_the_page_s(hang: Path) -> None:
    """Word by word, on each MPI; with the line of the program that the page has."""
    printed = done_well(["sh", "-c", '"$@" || [ $? = 1 ]', "sh", *MQS, "job", "--load", str(hang)])
    shown = re.search(r"^    STUCK FOR GOOD[\s\S]*?(?=^\S)", PAGE, re.MULTILINE)
    assert shown
    assert printed.split()[: len(shown[0].split())] == shown[0].split()


@pytest.mark.parametrize("mpi", MPIS, ids=lambda mpi: mpi.name)
def test_little_data_and_the_cure_work(mpi: Mpi, tmp_path: Path) -> None:
    """With few cells it ends; with many `mqs run` ends it; with the page's cure it ends by itself."""
    skip_without(mpi)
    watched = [*MQS, "run", "--after", "2s", "--interval", "300ms", "--report", str(tmp_path), "--"]
    wrong = compiled(mpi, PROGRAM, tmp_path)
    done_well(mpiexec(mpi, wrong, LITTLE), variables(mpi))
    environment = {**os.environ, **variables(mpi)}
    ended = subprocess.run([*watched, *mpiexec(mpi, wrong, MUCH)], capture_output=True, env=environment, check=False)
    assert ended.returncode == EXIT_STUCK
    cured, changed = SENDS_AND_RECEIVES.subn(textwrap.indent(CURE, "    "), PROGRAM)
    assert changed == 1
    done_well([*watched, *mpiexec(mpi, compiled(mpi, cured, tmp_path), MUCH)], variables(mpi))


def draw(hang: Path, folder: Path) -> None:
    """Make the pictures of the site: what a terminal shows, the graph, and the page."""
    job = saved.load(str(hang))
    verdict = conclude(job)
    assert verdict.outcome is Outcome.PROVED
    console = Console(record=True, width=110, file=io.StringIO(), force_terminal=True, markup=False, highlight=False)
    console.print(text.render(job, verdict))
    terminal = console.export_svg(title="mqs job ring", unique_id="terminal")
    (folder / "terminal.svg").write_text(re.sub(r"@font-face {[^}]*}", "", terminal))  # which is fetched from elsewhere
    (folder / "graph.svg").write_text(svg.render(job, verdict))
    (folder / "hang.html").write_text(html.render(job, verdict))


@pytest.mark.parametrize("hang", MPIS[:1], ids=lambda mpi: mpi.name, indirect=True)
def test_the_site_has_each_page_and_the_pictures(hang: Path, tmp_path: Path) -> None:
    """MkDocs finds nothing to complain of; the site fetches nothing from elsewhere. MQS_SITE is where it stays."""
    pytest.importorskip("material", reason="MkDocs' theme is not installed: pip install -e '.[dev]' brings it")
    pictures, site = tmp_path / "pictures", Path(os.environ.get("MQS_SITE", tmp_path / "site"))
    pictures.mkdir()
    draw(hang, pictures)
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", f"--config-file={ROOT}/mkdocs.yml"]
    done_well([*command, f"--site-dir={site}"], {"MQS_PICTURES": str(pictures), "NO_MKDOCS_2_WARNING": "1"})
    pages = {path.stem for path in site.glob("*.html")}
    assert pages >= {"index", "api", "changelog", *(path.stem for path in (ROOT / "docs").glob("*.md"))}
    for page, picture in (("hung", "terminal"), ("tutorial", "graph")):
        assert f'src="pictures/{picture}.svg"' in (site / f"{page}.html").read_text()
    assert "STUCK&#160;FOR&#160;GOOD" in (site / "pictures/terminal.svg").read_text()
    assert 'id="mqs_dll.commands.api.read_job"' in (site / "api.html").read_text()
    loads = r'src="(https?:[^"]*)|<link rel="(?!canonical|next|prev)[^>]*href="(https?:[^"]*)|url\("?(https?:[^)]*)'
    drawn = [*site.glob("*.html"), *site.glob("pictures/*")]
    fetched = [found for path in drawn for found in re.findall(loads, path.read_text())]
    assert fetched == []
    left = [found for path in site.glob("*.html") for found in re.findall(r'href="(\.\./[^"]*)', path.read_text())]
    assert left == []  # but in the repository
    assert "/blob/main/mqs_dll/job/records.py" in (site / "python.html").read_text()
