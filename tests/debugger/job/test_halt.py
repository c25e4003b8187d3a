"""Who is frozen by which cgroup, read from made-up files of /proc and of hierarchies of both versions."""

from __future__ import annotations

from pathlib import Path

import pytest

from mqs_dll.debugger.job.halt import frozen_by

PID = 4711


def write(folder: Path, **files: str) -> None:
    """Write files into a folder; "__" in their names stands for a dot."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)


def proc(folder: Path, cgroup: str, *mounts: str) -> str:
    """Return a /proc in which one process is in a cgroup."""
    lines = (f"3{number} 1 0:2{number} {mount}\n" for number, mount in enumerate(mounts))
    write(folder / "proc" / "self", mountinfo="".join(("22 1 8:1 / / rw - ext4 /dev/vda rw\n", "nonsense\n", *lines)))
    write(folder / "proc" / str(PID), cgroup=cgroup)
    return str(folder / "proc")


def test_a_cgroup_of_version_2_is_frozen_by_itself_or_one_above(tmp_path: Path) -> None:
    """The kernel says in cgroup.events that it is, and the file that was written to is the nearest one that has a 1."""
    job = tmp_path / "unified" / "slurm" / "job_7"
    write(job, cgroup__events="populated 1\nfrozen 1\n", cgroup__freeze="0\n")
    write(job.parent, cgroup__events="populated 1\nfrozen 1\n", cgroup__freeze="1\n")
    mount = f"/ {tmp_path}/unified rw - cgroup2 cgroup2 rw"
    where = proc(tmp_path, "4:freezer:/\n0::/slurm/job_7\n", mount)
    assert frozen_by(PID, where) == f"{job.parent}/cgroup.freeze"
    write(job, cgroup__events="populated 1\nfrozen 0\n")
    assert frozen_by(PID, where) == ""


def test_a_cgroup_of_version_1_is_frozen_by_itself_or_one_above(tmp_path: Path) -> None:
    """Also one that is mounted with others, and without those above it."""
    job = tmp_path / "freezer" / "job_7"
    write(job, freezer__state="FROZEN\n", freezer__self_freezing="1\n")
    mount = f"/slurm {tmp_path}/freezer rw - cgroup cgroup rw,cpuset,freezer"
    where = proc(tmp_path, "7:cpuset,freezer:/slurm/job_7\n0::/elsewhere\n", mount)
    assert frozen_by(PID, where) == f"{job}/freezer.state"
    write(job / "step_0", freezer__state="FROZEN\n", freezer__self_freezing="0\n")
    step = proc(tmp_path, "7:cpuset,freezer:/slurm/job_7/step_0\n0::/elsewhere\n", mount)
    assert frozen_by(PID, step) == f"{job}/freezer.state"
    where = proc(tmp_path, "7:cpuset,freezer:/slurm/job_7\n0::/elsewhere\n", mount)
    write(job, freezer__state="FREEZING\n")
    assert frozen_by(PID, where) == ""


@pytest.mark.parametrize(
    "cgroup", ["0::/../../etc\n", "0::/a/../b\n", "0::\n", "0::/" + "a/" * 5000 + "a\n", "", "\0\n"]
)
def test_a_cgroup_that_does_not_show_here_means_nothing(cgroup: str, tmp_path: Path) -> None:
    """In another cgroup namespace paths lead upwards; and a process may say anything."""
    write(tmp_path / "unified", cgroup__events="frozen 1\n", cgroup__freeze="1\n")
    where = proc(tmp_path, cgroup, f"/ {tmp_path}/unified rw - cgroup2 cgroup2 rw")
    assert frozen_by(PID, where) == ""


@pytest.mark.parametrize("cgroup", ["0::/other\n", "0::/slurm/../other\n"])
def test_a_cgroup_beside_the_one_that_is_mounted_means_nothing(cgroup: str, tmp_path: Path) -> None:
    """What lies beside the mount is another folder."""
    for folder in (tmp_path / "unified", tmp_path / "other", tmp_path / "unified" / "other"):
        write(folder, cgroup__events="frozen 1\n", cgroup__freeze="1\n")
    assert frozen_by(PID, proc(tmp_path, cgroup, f"/slurm {tmp_path}/unified rw - cgroup2 cgroup2 rw")) == ""


def test_a_path_that_leads_upwards_on_its_way_means_nothing(tmp_path: Path) -> None:
    """The kernel writes none: a made-up one leads elsewhere."""
    write(tmp_path / "unified" / "b", cgroup__events="frozen 1\n", cgroup__freeze="1\n")
    mount = f"/ {tmp_path}/unified rw - cgroup2 cgroup2 rw"
    assert frozen_by(PID, proc(tmp_path, "0::/b\n", mount)) != ""
    assert frozen_by(PID, proc(tmp_path, "0::/a/../b\n", mount)) == ""


def test_without_cgroups_nobody_is_frozen(tmp_path: Path) -> None:
    """Nor is a process that has ended."""
    assert frozen_by(PID, str(tmp_path)) == ""


def test_a_cgroup_far_below_the_one_that_was_frozen_names_its_own_file(tmp_path: Path) -> None:
    """A process may name any number of levels: so many are walked up at most."""
    path = "/a" * 100
    innermost = tmp_path / "unified" / path[1:]
    write(innermost, cgroup__events="frozen 1\n", cgroup__freeze="0\n")
    write(tmp_path / "unified" / "a", cgroup__freeze="1\n")
    where = proc(tmp_path, f"0::{path}\n", f"/ {tmp_path}/unified rw - cgroup2 cgroup2 rw")
    assert frozen_by(PID, where) == f"{innermost}/cgroup.freeze"
