"""Files that a user asks for: reports, saved jobs and profiles are written whole, and where he said."""

from __future__ import annotations

import errno
import os
import stat
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path

import pytest

from mqs_dll.calibrate import document
from mqs_dll.commands import calibrate, cli
from mqs_dll.contract.errors import CalibrationError, MqsError
from mqs_dll.job.saved import load, save
from tests.support.made_up_job import job, rank

OTHER = 12345
"""The number of another user."""

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
Write = Callable[[Path], int]


@pytest.fixture(params=["--html", "--svg", "--save", "--out"])
def write(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Write:
    """Return what writes a file by one of the commands' options, and returns the exit code."""
    saved = tmp_path_factory.mktemp("saved") / "job.json"
    save(job(rank(0, call="MPI_Recv"), rank(1, call="MPI_Barrier")), str(saved))
    if request.param != "--out":
        return lambda path: cli.main(["job", "--load", str(saved), request.param, str(path)])

    def write_profile(path: Path) -> int:
        """Write it as ``mqs calibrate --out`` does, at whose end it is."""
        try:
            document.write(path, {"name": "profile"})
        except MqsError as error:
            print(error)
            return cli.EXIT_UNREADABLE
        return 0

    return write_profile


def test_a_file_is_replaced_through_a_link_of_ones_own(write: Write, tmp_path: Path) -> None:
    """Whoever reads the older one meanwhile reads all of it; nothing stays beside the new one."""
    target, link = tmp_path / "report", tmp_path / "link"
    target.write_text("old")
    link.symlink_to("report")
    with target.open() as reader:
        assert write(link) in (0, 1, 2)
        assert reader.read() == "old"
    assert link.is_symlink()
    assert target.read_text() != "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "report"]


@as_root
def test_another_users_link_is_not_followed(write: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In a folder that all may write into, it could lead to any file of root's."""
    target, link, own = tmp_path / "target", tmp_path / "link", tmp_path / "own"
    target.write_text("precious")
    link.symlink_to(target)
    own.symlink_to(link)
    os.chown(link, OTHER, OTHER, follow_symlinks=False)
    for path in (link, own):
        assert write(path) == cli.EXIT_UNREADABLE
        assert "another user's link" in "".join(capsys.readouterr())
    assert target.read_text() == "precious"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "own", "target"]


def test_a_full_disk_leaves_what_was_there(write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither is the older file lost, nor half a new one left."""

    def no_space(number: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    target = tmp_path / "report"
    target.write_text("old")
    monkeypatch.setattr(os, "fsync", no_space)
    assert write(target) == cli.EXIT_UNREADABLE
    assert target.read_text() == "old"
    assert [*tmp_path.iterdir()] == [target]


def test_what_is_no_regular_file_is_not_written_over(write: Write, tmp_path: Path) -> None:
    """Devices stay what they are, and nobody waits for the reader of a FIFO."""
    fifo, directory, loop = tmp_path / "fifo", tmp_path / "directory", tmp_path / "loop"
    os.mkfifo(fifo)
    directory.mkdir()
    loop.symlink_to(loop)
    for path in (fifo, directory, loop):
        assert write(path) == cli.EXIT_UNREADABLE
    assert stat.S_ISFIFO(fifo.stat().st_mode)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["directory", "fifo", "loop"]


@pytest.mark.parametrize("name", ["-", "/dev/stdout"])
@pytest.mark.parametrize("option", ["--html", "--save"])
def test_the_standard_output_is_written_to(
    name: str, option: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """By its two names, which lead to no file."""
    saved = tmp_path / "job.json"
    save(job(rank(0, call="MPI_Recv")), str(saved))
    cli.main(["job", "--load", str(saved), option, name, "--json"])
    out, _ = capfd.readouterr()
    assert ("<!doctype html>" if option == "--html" else '"format":"mqs-job/') in out.lower()
    assert load(str(saved))


def test_a_directory_that_others_may_write_into_keeps_no_runs(tmp_path: Path) -> None:
    """What a user keeps of `mqs calibrate` goes into a directory of his own: links in another's could lead anywhere."""
    for number, mode in enumerate((0o777, 0o775)):
        shared = tmp_path / str(number)
        shared.mkdir()
        shared.chmod(mode)
        with pytest.raises(CalibrationError, match="others may write into"):
            calibrate.learn(Namespace(keep=shared, dump=None, where=str(tmp_path / "none"), mpiexec=[]))
    with pytest.raises(CalibrationError, match="is no directory, no library"):
        calibrate.learn(Namespace(keep=tmp_path / "new", dump=None, where=str(tmp_path / "none"), mpiexec=[]))
