"""What libmqs.so runs is what nobody could have put there but root, the user, and whoever could replace libmqs.so."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mqs_dll.contract import errors
from tests.support.embedding import ENVIRONMENT, ROOT, SECONDS, WARNINGS, libmqs, program

pytestmark = pytest.mark.root

OTHER, ANOTHER = 4242, 4343
"""Users and groups that nobody has."""

SYSTEM = Path("/usr/bin/python3")
SOURCES = ("exports", "choose", "helper", "log", "trust")
VERSION = re.compile(r"libmqs \S+ \(Python 3\.\d+\.\d+\S*, in a process of its own\)")


class Tree:
    """A package of libmqs in a user's folder, which lies in one that everybody may write into, as /tmp is."""

    def __init__(self, root: Path, user: int) -> None:
        """Make it for a user, whose group has the same number."""
        self.user = user
        root.chmod(0o755)
        self.shared = self.folder(root / "shared", owner=0, mode=0o1777)
        self.mine = self.folder(self.shared / "mine", owner=user)
        self.package = self.mine / "mqs_dll"
        self.ran = self.folder(root / "ran", owner=0, mode=0o777)
        shutil.copytree(libmqs().parent, self.package, ignore=shutil.ignore_patterns("__pycache__", "libmqs*.so"))
        self.library = self.package / "libmqs.so"
        self.build("")
        self.host = root / "host"
        shutil.copy(program("mqs_misuse"), self.host)
        self.log = self.ran / "log"

    def build(self, python: str) -> None:
        """Build the library with the path of a Python; all of the package is the user's."""
        macros = ['-DMQS_VERSION="1"', '-DMQS_PYTHON_VERSION="3"', "-DMQS_PYTHON_HAS_GIL=1"]
        command = ["gcc", *WARNINGS, *macros, f'-DMQS_PYTHON_EXECUTABLE="{python}"', "-Iinclude", "-Icsrc"]
        sources = [f"csrc/{name}.c" for name in SOURCES]
        libraries = ["-shared", "-fPIC", "-Wl,-z,nodelete", "-Wl,--version-script=csrc/libmqs.map", "-ldl", "-lpthread"]
        subprocess.run([*command, *sources, "-o", str(self.library), *libraries], cwd=ROOT, check=True)
        for path in (self.package, *self.package.rglob("*")):
            os.lchown(path, self.user, self.user)

    def folder(self, path: Path, owner: int, mode: int = 0o755, group: int | None = None) -> Path:
        """Make a folder."""
        path.mkdir()
        os.chown(path, owner, owner if group is None else group)
        path.chmod(mode)
        return path

    def python(self, path: Path, owner: int, mode: int = 0o755) -> Path:
        """Make what stands for a Python: it leaves a file when it is run."""
        path.write_text(f"#!/bin/sh\ntouch {self.ran}/$$.ran\n")
        os.chown(path, owner, owner)
        path.chmod(mode)
        return path

    def version(self, side: str = "helper") -> tuple[int, str]:
        """Return the code of a call of the user's debugger, and the version or the reason of its failure."""
        done = subprocess.run(
            [str(self.host), str(self.library), "setup_basic_callbacks", "setup_image", "version_string"],
            capture_output=True,
            check=True,
            timeout=SECONDS,
            env={**ENVIRONMENT, "MQS_PYTHON": side, "MQS_LOG": str(self.log)},
            user=self.user,
            group=self.user,
            extra_groups=[],
        )
        assert done.stderr == b""
        _, image, version = json.loads(done.stdout)
        return image["code"], image["error"] if image["code"] else version["text"]

    @property
    def planted_was_run(self) -> bool:
        """Whether anything that python() made was run."""
        return any(self.ran.glob("*.ran"))


@pytest.fixture(params=[0, 4141], ids=["root", "a user"])
def tree(request: pytest.FixtureRequest) -> Iterator[Tree]:
    """Return a package of root's or of another user's, who runs the debugger, too."""
    root = Path(tempfile.mkdtemp(prefix="mqs-trust-"))  # other users can't get at what lies in pytest's folders
    yield Tree(root, request.param)
    shutil.rmtree(root)


Plant = Callable[[Tree], str]
"""Puts what must not be run where libmqs searches for a Python; returns why it isn't run."""


def in_a_shared_folder(tree: Tree) -> str:
    """Let another user make bin/python3 in a folder above the package that everybody may write into."""
    folder = tree.folder(tree.shared / "bin", owner=OTHER)
    tree.python(folder / "python3", owner=OTHER)
    return f"{folder} belongs to another user ({OTHER})"


def in_a_folder_that_is_open(tree: Tree) -> str:
    """Let everybody write into the folder."""
    folder = tree.folder(tree.mine / "bin", owner=tree.user, mode=0o777)
    tree.python(folder / "python3", owner=tree.user)
    return f"every user may write into {folder}"


def in_a_folder_of_a_group(tree: Tree) -> str:
    """Let a group write into the folder, which may not replace libmqs.so."""
    folder = tree.folder(tree.mine / "bin", owner=tree.user, mode=0o775, group=OTHER)
    tree.python(folder / "python3", owner=tree.user)
    return f"a group ({OTHER}) may write into {folder}"


def a_file_that_is_open(tree: Tree) -> str:
    """Let everybody write to the file."""
    path = tree.python(tree.folder(tree.mine / "bin", owner=tree.user) / "python3", owner=tree.user, mode=0o777)
    return f"every user may write to {path}"


def a_file_of_another_user(tree: Tree) -> str:
    """Give the file to another user; the folder is the user's."""
    path = tree.python(tree.folder(tree.mine / "bin", owner=tree.user) / "python3", owner=OTHER)
    return f"{path} belongs to another user ({OTHER})"


def a_link_into_another_users_folder(tree: Tree) -> str:
    """Lead the user's link, by a link to a folder, to what another user may change."""
    theirs = tree.folder(tree.shared / "theirs", owner=OTHER)
    tree.python(theirs / "python3.9", owner=OTHER)
    folder = tree.folder(tree.mine / "bin", owner=tree.user)
    for link, target in ((tree.mine / "elsewhere", "../theirs"), (folder / "python3", ".././elsewhere/python3.9")):
        link.symlink_to(target)
        os.lchown(link, tree.user, tree.user)
    return f"{theirs} belongs to another user ({OTHER})"


def a_link_of_another_user(tree: Tree) -> str:
    """Make a link of another user's to root's Python: it may lead elsewhere in a moment."""
    folder = tree.folder(tree.shared / "bin", owner=0, mode=0o1777)
    (folder / "python3").symlink_to(SYSTEM)
    os.lchown(folder / "python3", OTHER, OTHER)
    return f"{folder / 'python3'} belongs to another user ({OTHER})"


PLANTS: list[Plant] = [
    in_a_shared_folder,
    in_a_folder_that_is_open,
    in_a_folder_of_a_group,
    a_file_that_is_open,
    a_file_of_another_user,
    a_link_into_another_users_folder,
    a_link_of_another_user,
]


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.__name__)
def test_a_python_that_others_can_change_is_not_run(plant: Plant, tree: Tree) -> None:
    """The next one is taken, and the log says which was not run and why."""
    reason = plant(tree)
    code, version = tree.version()
    assert not tree.planted_was_run
    assert (code, bool(VERSION.fullmatch(version))) == (0, True), version
    assert f"bin/python3 is not run: {reason}" in tree.log.read_text()


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.__name__)
def test_where_no_python_works_a_sentence_says_which_were_not_run(plant: Plant, tree: Tree) -> None:
    """The failure names what was refused, and why, behind what was tried."""
    reason = plant(tree)
    start = tree.package / "library/helper_start.py"
    start.write_text("")
    code, text = tree.version()
    assert code == errors.StartError.code
    assert not tree.planted_was_run
    assert "python3 does not run libmqs's helper" in text
    assert f"bin/python3 is not run: {reason}" in text


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.__name__)
def test_nor_is_the_python_that_libmqs_was_built_with(plant: Plant, tree: Tree) -> None:
    """Where others can change it by now, it isn't run either."""
    reason = plant(tree)
    (python,) = [path for path in (tree.mine / "bin/python3", tree.shared / "bin/python3") if os.path.lexists(path)]
    python.parent.rename(python.parent.with_name("sbin"))
    tree.build(str(python.parent.with_name("sbin") / "python3"))
    code, version = tree.version()
    assert not tree.planted_was_run
    assert (code, bool(VERSION.fullmatch(version))) == (0, True), version
    assert f"sbin/python3 is not run: {reason.replace('/bin', '/sbin')}" in tree.log.read_text()


def by_the_user(tree: Tree) -> None:
    """Make the user's own folder in one that is as /tmp is."""
    (tree.folder(tree.shared / "bin", owner=tree.user) / "python3").symlink_to(SYSTEM)
    os.lchown(tree.shared / "bin/python3", tree.user, tree.user)


def by_roots_link(tree: Tree) -> None:
    """Make a link of root's in a folder of root's."""
    (tree.folder(tree.mine / "bin", owner=0) / "python3").symlink_to(SYSTEM)


def by_the_users_own_group(tree: Tree) -> None:
    """Open the folder to the group that has the user alone in it, as a umask of 002 does."""
    (tree.folder(tree.mine / "bin", owner=tree.user, mode=0o775) / "python3").symlink_to(SYSTEM)
    os.lchown(tree.mine / "bin/python3", tree.user, tree.user)


def by_who_installed_libmqs(tree: Tree) -> None:
    """Give all to who could replace libmqs.so, which the debugger has loaded: that one need not be kept from less.

    A site's software is often a user's of its own, and a group's.
    """
    for path in (tree.mine, tree.package, *tree.package.rglob("*")):
        os.chown(path, OTHER, ANOTHER)
    tree.mine.chmod(0o775)
    (tree.folder(tree.mine / "bin", owner=OTHER, mode=0o775, group=ANOTHER) / "python3").symlink_to(SYSTEM)
    os.lchown(tree.mine / "bin/python3", OTHER, ANOTHER)


@pytest.mark.parametrize(
    "plant",
    [by_the_user, by_roots_link, by_the_users_own_group, by_who_installed_libmqs],
    ids=lambda plant: plant.__name__,
)
def test_a_python_that_only_those_who_are_trusted_can_change_is_run(plant: Callable[[Tree], None], tree: Tree) -> None:
    """It comes before the system's."""
    plant(tree)
    code, version = tree.version()
    assert (code, bool(VERSION.fullmatch(version))) == (0, True), version
    log = tree.log.read_text()
    assert re.search(rf", by {tree.shared}/(mine/)?bin/python3: ready", log), log
    assert "is not run" not in log


@pytest.mark.parametrize("side", ["helper", "embedded"])
@pytest.mark.parametrize("what", ["the folder", "a folder above", "the library"])
def test_nothing_is_run_where_everybody_may_replace_libmqs(what: str, side: str, tree: Tree) -> None:
    """Whether beside it, by another folder in the place of its own, or the library itself."""
    path = {"the folder": tree.package, "a folder above": tree.mine, "the library": tree.library}[what]
    path.chmod(0o777)
    code, text = tree.version(side)
    assert code == errors.StartError.code
    into = "to" if what == "the library" else "into"
    assert f"every user may write {into} {path}: nothing that lies there is run" in text


def test_a_program_of_the_helpers_that_others_can_change_is_not_run(tree: Tree) -> None:
    """helper_start.py, to which every user may write, or which is another user's."""
    start = tree.package / "library/helper_start.py"
    start.chmod(0o666)
    assert f"are not run: every user may write to {start}" in tree.version()[1]
    start.chmod(0o644)
    assert tree.version()[0] == 0
    os.chown(start, OTHER, OTHER)
    code, text = tree.version()
    assert code == errors.StartError.code
    assert f"are not run: {start} belongs to another user ({OTHER})" in text


def test_a_python_part_that_others_can_change_is_not_loaded(tree: Tree) -> None:
    """libmqs_python.so, which would run in the debugger itself."""
    part = tree.package / "libmqs_python.so"
    shutil.copy(libmqs().with_name(part.name), part)
    os.chown(part, OTHER, OTHER)
    code, text = tree.version("embedded")
    assert code == errors.StartError.code
    assert f"{part} belongs to another user ({OTHER}): libmqs_python.so is not loaded" in text
