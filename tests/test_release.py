"""What a release says of itself, in as many places as there are readers."""

from __future__ import annotations

import re
from pathlib import Path

from mqs_dll import __version__

ROOT = Path(__file__).parents[1]
PROJECT = (ROOT / "pyproject.toml").read_text()


def test_the_changelog_and_the_citation_are_of_this_version() -> None:
    """The newest release of the changelog is this one, and the citation has its date."""
    heads = re.findall(r"^## \[(\S+)\](?: - (\d{4}-\d\d-\d\d))?$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert heads[0] == ("Unreleased", "")
    version, date = heads[1]
    cited = dict(re.findall(r"^(version|date-released): (\S+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE))
    assert (version, cited) == (__version__, {"version": __version__, "date-released": date})


def test_the_changelog_has_the_kinds_of_changes_that_readers_look_for() -> None:
    """Those of keepachangelog.com, 1.1.0."""
    kinds = set(re.findall(r"^### (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE))
    assert kinds <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


def test_each_python_is_named() -> None:
    """From the oldest that it installs on, without a gap; and the MPIs that it is for."""
    minors = [int(each) for each in re.findall(r"Python :: 3\.(\d+)", PROJECT)]
    (oldest,) = re.findall(r'^requires-python = ">=3\.(\d+)"$', PROJECT, re.MULTILINE)
    assert minors == list(range(int(oldest), minors[-1] + 1))
    (description,) = re.findall(r'^description = "(.*)"$', PROJECT, re.MULTILINE)
    assert [mpi for mpi in ("Open MPI", "MPICH", "Intel MPI") if mpi not in description] == []


def test_all_addresses_are_of_one_repository() -> None:
    """The package's, the citation's and the site's."""
    table = PROJECT.partition("[project.urls]")[2].partition("\n\n")[0]
    (cited,) = re.findall(r"^repository-code: (\S+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    addresses = re.findall(r'^\w+ = "(.*)"$', table, re.MULTILINE)
    assert len(addresses) >= 4
    owner, name = cited.rsplit("/", 2)[1:]
    site = f"https://{owner}.github.io/{name}"
    assert [each for each in addresses if not each.startswith((cited, site))] == []
    assert f"\nsite_url: {site}\nrepo_url: {cited}\n" in (ROOT / "mkdocs.yml").read_text()


def test_the_oldest_packages_that_will_do_are_those_that_are_tested() -> None:
    """Each bound of pyproject.toml is a release in tools/constraints-oldest.txt."""
    tested = dict(re.findall(r"^(\w+)==(\S+)$", (ROOT / "tools/constraints-oldest.txt").read_text(), re.MULTILINE))
    needs = "".join(re.findall(r"^(?:dependencies|python) = \[([^\]]*)\]", PROJECT, re.MULTILINE))
    bounds = dict(re.findall(r'"(\w+)>=([\d.]+)"', needs))
    assert bounds.keys() == tested.keys()
    assert [name for name, bound in bounds.items() if not f"{tested[name]}.".startswith(f"{bound}.")] == []
