"""Processes of containers, read from outside by who may not open what is mapped by its address, and by root."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from mqs_dll.debugger import inside
from mqs_dll.debugger.inside import pids_known_to, threads_known_to
from mqs_dll.debugger.job.stacks.lines import lines_at
from mqs_dll.debugger.live import LiveProcess
from tests.support.closed import NOBODY
from tests.support.containers import (
    as_user,
    child_of,
    command,
    open_folder,
    running,
    skip_where_python_is_roots_own,
    skip_without_containers,
)
from tests.support.targets import DEADLINE, ROOT, SOURCES, compile_target

pytestmark = pytest.mark.root

BUILDS = ("none", "sha1")
"""What libraries have as ids of their builds; PyPI's MPICH has none."""

AT_A_PATH = 'mount -t tmpfs none "$1"; cp "$2"/* "$1"; exec "$1"/room'
"""A file system of its own at $1, with the files of $2."""

IN_A_ROOT = """
mount -t tmpfs none "$1"
mkdir "$1"/usr "$1"/app "$1"/real
mount --rbind /usr "$1"/usr
for each in lib lib64; do ln -s usr/$each "$1"/$each; done
cp "$2"/room "$1"/app
cp "$2"/liblamp.so "$1"/real
ln -s /real/liblamp.so "$1"/app/liblamp.so
exec chroot "$1" /app/room
"""
"""A root of its own, in which a library is found by a link."""


A_ROOT_WITH_DEBUG_FILES = """
mount -t tmpfs none "$1"
mkdir -p "$1"/app "$1"/usr/lib/debug
cp -L "$2"/room "$2"/liblamp.so "$1"/app
for each in $(ldd "$2"/room | grep -o '/[^ ]*lib[^ ]*'); do cp -L --parents "$each" "$1"; done
cp -R "$2"/debug "$1"/usr/lib/debug/.build-id
exec chroot "$1" /app/room
"""
"""A root with nothing but these files, and debug files by their builds."""


@pytest.fixture
def folder() -> Iterator[Path]:
    """Return a folder that each user can read; skip where containers can't be made."""
    skip_without_containers()
    with open_folder() as folder:
        yield folder


def build(folder: Path, kind: int, build_id: str, searched: Path | str) -> Path:
    """Return a folder, new, with a library of a kind and a program that searches for it somewhere."""
    folder.mkdir()
    padding = folder / "padding.h"
    padding.write_text(f"long before_it[{512 * kind}] = {{1}};")
    options = ("-shared", "-fPIC", "-s", "-Wl,-soname,liblamp.so", f"-DKIND={kind}", "-include", str(padding))
    library = compile_target(folder / "liblamp.so", "lamp.c", *options, f"-Wl,--build-id={build_id}")
    compile_target(folder / "room", "room.c", "-fPIC", "-pie", "-s", str(library), f"-Wl,-rpath,{searched}")
    return folder


def seen(*pids: int) -> list[tuple[int | None, list[str]]]:
    """Return the kind of lamp that each of some processes has, and the files that can't be read."""
    found = []
    for pid in pids:
        with LiveProcess(pid) as process:
            address = process.image.find_symbol("lamp")
            kind = None if address is None else process.fetch(address, 1)[0]
            found.append((kind, process.image.unreadable_modules()))
    return found


@pytest.mark.parametrize("build_id", BUILDS)
@pytest.mark.parametrize("outside", ["another", "nothing"])
def test_files_of_a_container_are_read_and_none_outside(outside: str, build_id: str, folder: Path) -> None:
    """What lies at their path outside isn't the process's, whether it has an id of its build or not."""
    place = folder / "place"
    own = build(folder / "own", 1, build_id, place)
    if outside == "another":
        build(place, 2, build_id, place)
    else:
        place.mkdir()
    with running(command(AT_A_PATH, place, own)) as process:
        assert as_user(lambda: seen(process.pid)) == repr([(1, [])])


@pytest.mark.parametrize("reader", ["user", "root"])
def test_what_is_known_of_a_file_is_not_said_of_another_containers(reader: str, folder: Path) -> None:
    """Ranks of one job may have files of one path each in a container of its own: also where these have no ids."""
    place = folder / "place"
    owns = [build(folder / str(kind), kind, "none", place) for kind in (1, 2)]
    place.mkdir()
    user = {} if reader == "user" else {"user": None}
    first, second = (command(AT_A_PATH, place, own, users=reader == "user") for own in owns)
    with running(first, **user) as one, running(second, **user) as two:
        pids = (one.pid, two.pid, one.pid)
        found = as_user(lambda: seen(*pids)) if reader == "user" else repr(seen(*pids))
        assert found == repr([(1, []), (2, []), (1, [])])


@pytest.mark.parametrize("build_id", BUILDS)
def test_links_of_a_container_lead_to_its_own_files(build_id: str, folder: Path) -> None:
    """They are followed in its root; a path that the kernel tells of what is mapped means another file outside."""
    place = folder / "place"
    own = build(folder / "own", 1, build_id, "/app")
    build(place, 2, build_id, place)
    shutil.copytree(place, place / "real")
    with running(command(IN_A_ROOT, place, own)) as process:
        assert as_user(lambda: seen(process.pid)) == repr([(1, [])])


def test_links_are_followed_where_the_kernel_or_a_filter_knows_no_roots(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without openat2 files are found by paths without links, and what these lead to outside is not believed."""
    monkeypatch.setattr(inside, "_OPENAT2", 0xFFFF)
    place = folder / "place"
    own = build(folder / "own", 1, "none", place)
    build(place, 2, "none", place)
    with running(command(AT_A_PATH, place, own)) as process:
        assert as_user(lambda: seen(process.pid)) == repr([(1, [])])


@pytest.mark.parametrize("its", ["own", "another build's", "text", "a pipe"])
def test_debug_information_of_a_container_is_read_by_its_build(its: str, folder: Path) -> None:
    """Types and lines of a stripped library come from /usr/lib/debug inside, if the file there is of the same build."""
    own = folder / "own"
    own.mkdir()
    build = "0123456789abcdef"
    options = ("-shared", "-fPIC", "-g", "-Wl,-soname,liblamp.so", "-DKIND=1")
    library = compile_target(own / "liblamp.so", "lamp.c", *options, f"-Wl,--build-id=0x{build}")
    compile_target(own / "room", "room.c", "-fPIC", "-pie", str(library), "-Wl,-rpath,/app")
    debug = own / "debug" / build[:2] / f"{build[2:]}.debug"
    debug.parent.mkdir(parents=True)
    other = compile_target(own / "other.so", "lamp.c", *options)
    source = library if its == "own" else other
    subprocess.run(["objcopy", "--only-keep-debug", source, debug], check=True)
    subprocess.run(["strip", library], check=True)
    if its == "text":
        debug.write_text("no debug information")
    elif its == "a pipe":
        debug.unlink()
        os.mkfifo(debug)
    place = folder / "place"
    place.mkdir()
    with running(command(A_ROOT_WITH_DEBUG_FILES, place, own)) as process:
        expected = (12, f"{SOURCES / 'lamp.c'}") if its == "own" else (None, None)
        assert seen_by_new_python(process.pid) == repr(expected)


def seen_by_new_python(pid: int) -> str:
    """Return types_and_lines of a process as a user's own Python has it: drgn reads types with threads (OpenMP).

    A child of ours would wait for ours, which it doesn't have.
    """
    skip_where_python_is_roots_own()
    look = (
        "import sys; from tests.debugger.test_inside import types_and_lines; print(types_and_lines(int(sys.argv[1])))"
    )
    said = subprocess.run(
        [sys.executable, "-c", look, str(pid)], user=NOBODY, group=NOBODY, extra_groups=[], cwd=ROOT,
        capture_output=True, text=True, timeout=DEADLINE, check=False,
    )  # fmt: skip
    return said.stdout.strip() or said.stderr


def types_and_lines(pid: int) -> tuple[int | None, str | None]:
    """Return the size of a type of the library, and the source file of its function."""
    with LiveProcess(pid) as process:
        function = process.image.find_function("lamp_watts")
        assert function is not None
        module = process.program.module(function)
        lines = lines_at(module, function, process.image.file_of(module))
        lamp = process.image.find_type("lamp_t")
        return lamp and process.image.type_size(lamp), lines[0].file if lines else None


@pytest.mark.parametrize("build_id", BUILDS)
@pytest.mark.parametrize(("kind", "expected"), [(1, (1, [])), (2, (None, ["liblamp.so"]))])
def test_a_file_that_was_replaced_is_believed_by_its_build(
    kind: int, expected: Any, build_id: str, folder: Path
) -> None:
    """A copy of what is mapped has its symbols; another build is missing, and said to be."""
    place = folder / "place"
    build(place, 1, build_id, place)
    other = build(folder / "other", kind, build_id, place)
    with running([str(place / "room")]) as process:
        (other / "liblamp.so").rename(place / "liblamp.so")
        found = as_user(lambda: [(lamp, [Path(each).name for each in lost]) for lamp, lost in seen(process.pid)])
    assert found == repr([expected])


def test_a_pipe_at_the_path_of_a_file_is_not_waited_for(folder: Path) -> None:
    """Who runs the process could put one there."""
    place = folder / "place"
    build(place, 1, "none", place)
    with running([str(place / "room")]) as process:
        (place / "liblamp.so").unlink()
        os.mkfifo(place / "liblamp.so")
        assert as_user(lambda: seen(process.pid)) == repr([(None, [str(place / "liblamp.so")])])


# ---------------------------------------------------------------- numbers of processes


NESTED = 'unshare -p -f sh -c "echo ready; exec sleep 60" & wait'
"""In the container another PID namespace, with a process that is 1 there too."""


def test_a_process_in_a_container_knows_others_by_other_numbers(folder: Path) -> None:
    """Those of its own PID namespace and below; another container's of the same numbers are none of them."""
    with running(command(NESTED, pids=True)) as one, running(command(NESTED, pids=True)) as two:
        shells = [child_of(each.pid) for each in (one, two)]
        unshares = [child_of(shell) for shell in shells]
        sleepers = [child_of(each) for each in unshares]
        for shell, unshare, sleeper in zip(shells, unshares, sleepers, strict=True):
            assert as_user(partial(pids_known_to, shell)) == repr(pids_known_to(shell))
            found = pids_known_to(shell)
            assert found is not None
            assert sorted(found.values()) == sorted((shell, unshare, sleeper))
            assert found[1] == shell
            assert pids_known_to(sleeper) == {1: sleeper}
            assert threads_known_to(sleeper) == {1: sleeper}
    assert pids_known_to(os.getpid()) is None
