"""The README and the pages in docs/: links, command lines, options, exit codes, tables and lengths."""

from __future__ import annotations

import argparse
import importlib.util
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from mqs_dll.commands import cli
from mqs_dll.debugger.stopping.limit import EXIT_LIMIT
from mqs_dll.verdict import conclude
from mqs_dll.verdict.results import Outcome

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
COMMANDS = ROOT / "docs/command.md"

REFERENCES = {"command.md", "gallery.md", "json-schema.md", "support-matrix.md", "architecture.md", "CHANGELOG.md"}
"""Pages in which readers look things up, and which may be long."""
LONGEST = 1200
"""Words of any other page, without its tables and examples."""

CODE = re.compile(r"^```[\s\S]*?^```$|^(?: {4}.*\n)+", re.MULTILINE)
"""A fenced or an indented example."""


def ids(page: Path) -> str:
    """Return a page's name."""
    return page.name


def sections(page: Path) -> dict[str, str]:
    """Return the text below each heading of the second level."""
    _, *parts = re.split(r"^## ", page.read_text(), flags=re.MULTILINE)
    return {title: text for title, _, text in (part.partition("\n") for part in parts)}


def anchors(page: Path) -> set[str]:
    """Return the anchors that GitHub gives a page's headings."""
    titles = re.findall(r"^#+ (.+)$", CODE.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=ids)
def test_every_local_link_leads_to_a_file_and_a_heading(page: Path) -> None:
    """A link to a file of the repository names one that exists; an anchor names a heading of that page."""
    wrong = []
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if re.match(r"https?://", target):
            continue
        name, _, anchor = target.partition("#")
        file = page.parent / name if name else page
        if not file.exists() or (anchor and anchor not in anchors(file)):
            wrong.append(target)
    assert wrong == []


def test_every_page_is_linked_from_the_readme() -> None:
    """A reader of the README finds each page of docs/."""
    linked = set(re.findall(r"\]\(docs/([\w-]+\.md)", (ROOT / "README.md").read_text()))
    assert linked == {page.name for page in PAGES if page.parent.name == "docs"}


def test_the_readme_is_short() -> None:
    """The README has at most 120 lines."""
    assert len((ROOT / "README.md").read_text().splitlines()) <= 120


@pytest.mark.parametrize("page", [page for page in PAGES if page.name not in REFERENCES], ids=ids)
def test_a_page_is_read_in_one_sitting(page: Path) -> None:
    """A page that is no reference has at most 1,200 words of prose."""
    prose = re.sub(r"^\|.*\n", "", CODE.sub("", page.read_text()), flags=re.MULTILINE)
    assert len(prose.split()) <= LONGEST


@pytest.mark.parametrize("page", PAGES, ids=ids)
def test_every_file_that_is_named_exists(page: Path) -> None:
    """Paths of tests, tools and modules in a page's text are those of the repository; so are benchmarks."""
    text = page.read_text()
    paths = re.findall(r"`((?:tests|tools|mqs_dll|csrc|include|benchmarks)/[\w./-]+)`", text)
    assert [path for path in paths if not (ROOT / path).exists()] == []
    assert [name for name in re.findall(r"-m (benchmarks\.\w+)", text) if importlib.util.find_spec(name) is None] == []


# ---------------------------------------------------------------- what is supported

WORDS = {"right": "all", "in part": "in part", "hidden": "none"}
"""What the README calls a value of the support matrix."""


def cells(page: Path, head: str) -> list[list[str]]:
    """Return the rows of the table whose head starts with these words."""
    _, _, after = page.read_text().partition(f"| {head}")
    lines = after.partition("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_the_readme_claims_what_the_tests_see() -> None:
    """The README's table has each MPI and transport of docs/support-matrix.md, with what is seen, and no others."""
    claimed: dict[tuple[str, str], list[str]] = {}
    mpis: list[str] = []
    for title, transports, *values in cells(ROOT / "README.md", "MPI | transport | sends"):
        if title:  # "Open MPI 4.1, 5.0"; the rows below have none
            product, releases = re.split(r" (?=\d)", title, maxsplit=1)
            mpis = [f"{product} {release}" for release in releases.split(", ")]
        claimed.update({(mpi, transport): values for mpi in mpis for transport in transports.split(", ")})

    seen = set()
    for title, transport, _, communicators, *values in cells(
        ROOT / "docs/support-matrix.md", "MPI | transport | layouts"
    ):
        mpi = ".".join(re.split(r"[.,]? ?\(|[.,]", title)[:2])  # "Open MPI 4.1" of "Open MPI 4.1.4 (Debian)"
        assert (communicators, claimed.get((mpi, transport))) == ("right", [WORDS[value] for value in values]), title
        seen.add((mpi, transport))
    assert {mpi for mpi, _ in claimed} == {mpi for mpi, _ in seen}
    assert {transport for _, transport in claimed} == {transport for _, transport in seen}


def test_the_first_words_of_a_report_are_explained() -> None:
    """docs/hung.md has those of each headline, and none besides."""
    code = Path(conclude.__file__).read_text().partition("def _headline(")[2].partition("\ndef ")[0]
    explained = {words for row in cells(ROOT / "docs/hung.md", "the first words") for words in row[0].split(", ")}
    starts = {text.upper() for text in re.findall(r"""["']([A-Z][a-z]+ [a-z ]+?)(?:["':,]|\.)""", code)}
    assert starts == explained


# ---------------------------------------------------------------- the command


def subcommands() -> dict[str, argparse.ArgumentParser]:
    """Return the parser of each command."""
    for action in cli.parser()._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    raise AssertionError("mqs has no commands")


def command_lines(text: str) -> Iterator[list[str]]:
    """Yield the words after `mqs` of each line in a page's examples that runs it, without what a shell does there."""
    for example in CODE.findall(text):
        for line in re.split(r"[\n;]", re.sub(r" +#.*| *>>.*", "", example)):
            if re.match(r" *(\S+/)?mqs ", line):
                yield shlex.split(line)[1:]


@pytest.mark.parametrize("page", PAGES, ids=ids)
def test_every_command_line_is_one_that_mqs_takes(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each example that starts with `mqs` is parsed without a complaint."""
    for words in command_lines(page.read_text()):
        try:
            cli.parser().parse_args(words)
        except SystemExit:
            pytest.fail(f"mqs {shlex.join(words)}: {capsys.readouterr().err}")


@pytest.mark.parametrize("name", sorted({*subcommands()} - {"agent"}))
def test_every_command_has_its_options_on_its_page(name: str) -> None:
    """docs/command.md lists the command; its section, or the page it links to, has each option and no others."""
    page = sections(COMMANDS)
    assert f"`mqs {name}" in page["Commands"]
    pages = {"calibrate": "calibrate.md", "run": "run.md"}
    text = (COMMANDS.parent / pages[name]).read_text() if name in pages else page.get(f"mqs {name}", "")
    shown = [action for action in subcommands()[name]._actions if action.help != argparse.SUPPRESS]
    there = {option for action in shown for option in action.option_strings} - {"-h", "--help"}
    assert sorted(there - set(re.findall(r"--[a-z][\w-]+", text))) == []
    rows = "".join(re.findall(r"^\| (`-.+?) \|", text, re.MULTILINE))
    assert sorted(set(re.findall(r"--[a-z][\w-]+", rows)) - there) == []


def test_every_exit_code_is_in_the_table() -> None:
    """docs/command.md has the exit codes of the verdicts, of failures and of wrong usage, and no others."""
    codes = {outcome.value for outcome in Outcome}
    codes |= {cli.EXIT_SHOWN, cli.EXIT_UNREADABLE, EXIT_LIMIT, cli.EXIT_USAGE, cli.EXIT_INTERNAL, cli.EXIT_INTERRUPTED}
    rows = re.findall(r"^\| (\d+) \|", sections(COMMANDS)["Exit codes"], re.MULTILINE)
    assert sorted(map(int, rows)) == sorted(codes)
