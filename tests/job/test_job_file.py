"""Jobs in files: what is written is what is read, and what is no saved job is one sentence."""

from __future__ import annotations

import errno
import gzip
import json
import os
import stat
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mqs_dll.contract.abi import (
    Communicator,
    Datatype,
    LayoutOrigin,
    MpiFacts,
    Operation,
    ProfileFacts,
    Queue,
    Status,
    Window,
)
from mqs_dll.contract.errors import SavedFileError
from mqs_dll.job import saved as job_file
from mqs_dll.job.records import Argument, ArgumentEvidence, CallStack, Frame, Job, JobProcess, Language, RankState
from mqs_dll.job.saved import load, save
from mqs_dll.job.shared import Shared
from mqs_dll.job.snapshot import CommunicatorSnapshot, CoreView, Hidden, QueueSnapshot
from mqs_dll.verdict.conclude import conclude
from mqs_dll.verdict.results import Cause, Certainty
from tests.support.made_up_job import ANY, collective, communicator, gone, job, note, rank, receive, send, unexpected

HOSTILE = 'line\nbreak "quotes" \\ \x00 \x1b[31m \u202etxt \ud83d\ude00 \udce9 \U0001f600 \ud800'
"""Text as a target may give it; joined by a reader of JSON, its two halves of a character would be one."""

SPLIT = communicator("halo", (1, 0))


def small_job() -> Job:
    """Return a job with a bit of everything."""
    return job(
        rank(0, receive(1, 7), receive(ANY, ANY, on=SPLIT), call="MPI_Recv", earlier=rank(0)),
        rank(1, send(0, 8), unexpected(0, 3), collective("MPI_Barrier"), note("3 messages"), broken=[Queue.SENDS]),
        rank(2, stacks=Hidden("no stacks", "install them"), hidden=[Queue.UNEXPECTED]),
        rank(3, state=RankState.UNREADABLE, why="another debugger holds it", remedy="detach it"),
        gone(4),
        rank(None, state=RankState.NOT_INITIALIZED, world=1),
    )


def strange_job() -> Job:
    """Return a job in which every field is what a target could make of it at worst."""
    operation = Operation(
        Status.COMPLETE, -1, -2, True, -(2**31), 2**63, True, 2**64 - 1, 2**53 + 1, -(2**63), 0, -(2**53) - 1,
        (b"", b"\xff\x00\n", HOSTILE.encode("utf-8", "surrogatepass"), "日本".encode()),
    )  # fmt: skip
    queues = (
        QueueSnapshot(Queue.SENDS, (operation,), broken=HOSTILE, remedy=HOSTILE),
        QueueSnapshot(Queue.RECEIVES, (), hidden=Hidden(HOSTILE, HOSTILE)),
        QueueSnapshot(Queue.UNEXPECTED, (operation, operation)),
    )
    core = CoreView(
        layouts=(LayoutOrigin("ompi_request_t", HOSTILE),),
        windows=(Window(b"caf\xe9", 3, 2**64 - 1),),
        datatypes=(Datatype(b"MPI_INT", 4, True, 2, 0x7F00),),
        mpi=MpiFacts(
            "Open MPI", HOSTILE, "pml/ob1", "", 2**63, ProfileFacts("openmpi-4.1", HOSTILE, True, False, True)
        ),
        checks=(HOSTILE, ""),
        refusals=(),
        refused_profiles=None,
    )
    frame = Frame(HOSTILE, HOSTILE, None, None, Language.PYTHON)
    made = small_job()
    first = made.processes[0]
    sample = first.samples[0]
    record = Communicator(2**64 - 1, -1, -(2**31), b"\x00\xfe")
    snapshot = replace(
        sample.snapshot,
        program=HOSTILE,
        library_path=HOSTILE,
        global_rank=None,
        communicators=(CommunicatorSnapshot(record, Hidden(HOSTILE), queues),),
        core=core,
    )
    other = replace(sample.snapshot, core=CoreView(windows=Hidden("a"), datatypes=()), stop_time=1e-9)
    stacks = (
        CallStack(2**31, None, None, frame, (frame, frame), HOSTILE, (2**64 - 8, 128)),
        CallStack(1, HOSTILE, frame, None, (), ""),
    )
    samples = (
        replace(sample, snapshot=snapshot, stacks=stacks, progressed=True, slices=2**63),
        replace(sample, snapshot=other),
    )
    processes = (replace(first, samples=samples, program=HOSTILE, host=HOSTILE), *made.processes[1:])
    return replace(made, title=HOSTILE, processes=processes, launcher=None, sizes=(None, 6), stopped=False)


@pytest.mark.parametrize("make", [small_job, strange_job, lambda: job()], ids=["small", "strange", "empty"])
@pytest.mark.parametrize("name", ["job.json", "job.json.gz"])
def test_what_is_saved_is_what_is_loaded(tmp_path: Path, make: Callable[[], Job], name: str) -> None:
    """Every field of every record survives, whatever bytes and numbers a target put there."""
    path = str(tmp_path / name)
    save(make(), path)
    assert load(path) == make()


def test_the_name_decides_on_compression(tmp_path: Path) -> None:
    """What ends in .gz is compressed; reading looks at what the file is, whatever its name."""
    save(small_job(), str(tmp_path / "job.gz"))
    assert gzip.decompress((tmp_path / "job.gz").read_bytes()) == job_file.to_bytes(small_job())
    (tmp_path / "job.gz").rename(tmp_path / "job")
    assert load(str(tmp_path / "job")) == small_job()


def test_a_saved_job_is_plain_ascii_without_half_characters() -> None:
    """Any reader of JSON can read it: no lone surrogates, no number that a double can't hold."""
    content = job_file.to_bytes(strange_job())
    text = json.dumps(json.loads(content), ensure_ascii=False)
    assert content.isascii()
    assert text.encode()
    assert '"buffer": "0xffffffffffffffff"' in text


def with_own_group(process: JobProcess) -> JobProcess:
    """Return a process whose MPI_COMM_WORLD has a group that is another object than all others' equal groups."""
    (sample,) = process.samples
    (world,) = sample.snapshot.communicators
    own = replace(world, group=(*group_of(process),))
    return replace(process, samples=(replace(sample, snapshot=replace(sample.snapshot, communicators=(own,))),))


def group_of(process: JobProcess) -> tuple[int, ...]:
    """Return the group of a process's MPI_COMM_WORLD."""
    group = process.samples[0].snapshot.communicators[0].group
    assert not isinstance(group, Hidden)
    return group


def test_what_ranks_have_in_common_stands_in_the_file_once(tmp_path: Path) -> None:
    """A group is written once, however many ranks have it, and is one object when it was read."""
    shared = job(*(rank(number, call="MPI_Recv") for number in range(30)))
    made = replace(shared, processes=tuple(map(with_own_group, shared.processes)))
    assert len({id(group_of(process)) for process in made.processes}) == 30
    content = job_file.to_bytes(made)
    assert json.loads(content)["groups"] == [list(range(30))]
    loaded = job_file.from_bytes(content, "job")
    assert loaded == made
    assert len({id(group_of(process)) for process in loaded.processes}) == 1
    assert isinstance(group_of(loaded.processes[0]), Shared)  # so that it is hashed once


# ---------------------------------------------------------------- files of older versions

SAVED_BY_VERSION_1 = Path(__file__).with_name("saved-1.json")
"""Three ranks of Open MPI 4.1.4, read live and saved in the format mqs-job/1: two wait for each other."""


def test_a_file_of_an_older_version_is_read() -> None:
    """Its members have older names; the job is the same, and so is its verdict."""
    old = load(str(SAVED_BY_VERSION_1))
    assert (old.host, old.sizes, round(old.stop_time, 4)) == ("node1", (3,), 0.0036)
    stacks = old.processes[1].samples[-1].stacks
    assert not isinstance(stacks, Hidden)
    assert stacks[0].argument("tag") == Argument("tag", 9, ArgumentEvidence.CALLER)
    (first, *_) = conclude(old).findings
    assert (first.cause, first.certainty) == (Cause.CYCLE, Certainty.PROVED)
    assert job_file.from_bytes(job_file.to_bytes(old), "job") == old


def test_every_renamed_member_of_an_older_file_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever a record has one of them; a file of today that has an older name is damaged."""
    made = replace(strange_job(), stop_skew=0.25)
    names = job_file._OLD_NAMES[1]
    content = job_file.to_bytes(made).replace(job_file.FORMAT.encode(), b"mqs-job/1")
    for name, old_name in names.items():
        content = content.replace(f'"{name}":'.encode(), f'"{old_name}":'.encode())
    assert job_file.from_bytes(content, "job") == made
    with pytest.raises(SavedFileError, match="isn't known"):
        job_file.from_bytes(content.replace(b"mqs-job/1", job_file.FORMAT.encode()), "job")


# ---------------------------------------------------------------- writing


def test_saving_replaces_a_file_and_leaves_nothing_else(tmp_path: Path) -> None:
    """An older file is written over, through a link too, and nothing stays beside it."""
    target, link = tmp_path / "job", tmp_path / "link"
    target.write_text("old")
    link.symlink_to(target)
    with target.open() as reader:
        save(small_job(), str(link))
        assert reader.read() == "old"  # whoever reads it meanwhile reads the whole of the older one
    assert link.is_symlink()
    assert load(str(target)) == small_job()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["job", "link"]


def test_a_failed_save_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk costs neither the old file nor leaves half a new one."""
    target = tmp_path / "job"
    target.write_text("old")

    def no_space(number: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", no_space)
    with pytest.raises(SavedFileError, match=r"can't write .*/job: No space left on device"):
        save(small_job(), str(target))
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize("name", ["fifo", "directory", "missing/job", "nul\0byte"])
def test_what_is_no_regular_file_is_not_written_over(tmp_path: Path, name: str) -> None:
    """Devices, directories and impossible paths are refused; a device of the machine is too dear to try it on."""
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "directory").mkdir()
    with pytest.raises(SavedFileError):
        save(small_job(), f"{tmp_path}/{name}")
    assert stat.S_ISFIFO((tmp_path / "fifo").stat().st_mode)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["directory", "fifo"]


def test_a_dash_is_the_standard_output_and_input(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """So jobs go through pipes."""
    save(small_job(), "-")
    (tmp_path / "job").write_bytes(capfdbinary.readouterr().out)
    with (tmp_path / "job").open() as stream:
        monkeypatch.setattr(sys, "stdin", stream)
        assert load("-") == small_job()


# ---------------------------------------------------------------- what is no saved job


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "no saved job"),
        (b"\x7fELF", "no saved job"),
        (b'{"schema": "mqs-show/1"}', "no saved job"),
        (b'{"job": {}, "format": "mqs-job/2"}', "no saved job"),
        (b'{"format": "mqs-job/3", "anything": 1}', "saved by a newer libmqs, as mqs-job/3; this one reads mqs-job/2"),
        (b'{"format": "mqs-job/0"}', "of the format mqs-job/0"),
        (b'{"format": "mqs-job/2"', "cut off or damaged: no JSON from byte 22 on"),
        (b'{"format": "mqs-job/2"}', "other parts"),
        (b'{"format": "mqs-job/2", "job": ' + b"[" * 100_000, "nested too deeply"),
        (b'{"format": "mqs-job/2", "job": ' + b"9" * 5000 + b"}", "damaged"),
        (b'{"format": "mqs-job/2", "job": NaN}', "NaN is no number"),
        (b'{"format": "mqs-job/2", "job": "\xff"}', "damaged"),
        (gzip.compress(b"\0" * 100_000), "no saved job"),
        (gzip.compress(b'{"format": "mqs-job/2"}' + b" " * 100_000)[:-50], "cut off or damaged"),
        (b"\x1f\x8b nonsense", "cut off or damaged"),
    ],
)
def test_what_is_no_saved_job_is_one_sentence(tmp_path: Path, content: bytes, sentence: str) -> None:
    """Another file, another version, a file that was cut off or damaged: each says which of these it is."""
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(SavedFileError) as caught:
        load(str(path))
    assert str(caught.value).startswith(str(path))
    assert sentence in str(caught.value)


@pytest.mark.parametrize("path", ["{}/missing", "{}", "{}/nul\0byte"])
def test_what_cannot_be_read_says_so(tmp_path: Path, path: str) -> None:
    """A path that is no readable file is an error with that path."""
    with pytest.raises(SavedFileError, match="can't read"):
        load(path.format(tmp_path))


def test_a_bomb_is_refused_before_it_fills_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What unpacks to more than any job needs isn't unpacked."""
    monkeypatch.setattr(job_file, "LARGEST", 1 << 16)
    path = tmp_path / "job.gz"
    path.write_bytes(gzip.compress(b'{"format": "mqs-job/2", "job": ' + b" " * (1 << 16)))
    with pytest.raises(SavedFileError, match="more than 65536 bytes"):
        load(str(path))


def changed(document: Any, where: str, value: Any) -> None:
    """Change one value of a document, found by member names and places."""
    *steps, last = (int(step) if step.lstrip("-").isdigit() else step for step in where.split("."))
    for step in steps:
        document = document[step]
    document[last] = value


PROCESS = "job.processes.0"
SNAPSHOT = f"{PROCESS}.samples.0.snapshot"
WORLD = f"{SNAPSHOT}.communicators.0"
OPERATION = "queues.3.operations.0"


@pytest.mark.parametrize(
    ("where", "value", "sentence"),
    [
        ("job", [], "is no object"),
        ("job.title", 1, "title is no text"),
        ("job.title", {"hex": "xy"}, "title is not hexadecimal"),
        ("job.title", {"hex": "ff"}, "title is no text"),
        ("job.title", {"hex": "00", "more": 1}, "title is no text"),
        ("job.title", "\udc80", "title has half a character"),
        ("job.stopped", 1, "stopped is neither true nor false"),
        ("job.stop_time", "1", "stop_time is no number"),
        ("job.stop_time", 1e400, "Infinity is no number"),
        ("job.launcher", "soon", "launcher is no number"),
        ("job.launcher", 2**64, "launcher is no number of 64 bits"),
        ("job.launcher", "0x1" + "0" * 16, "launcher is no number of 64 bits"),
        ("job.launcher", True, "launcher is of no type"),
        ("job.launcher", 1.0, "launcher is of no type"),
        ("job.surprise", 1, "has a member 'surprise', which isn't known"),
        ("job.processes", {}, "processes is no list"),
        ("job.sizes.0", 2**31, "2147483648 ranks is larger than any"),
        ("job.sizes.0", -1, "-1 ranks"),
        (f"{PROCESS}.world", 2, "MPI_COMM_WORLD no. 2 of 2"),
        (f"{PROCESS}.rank", -1, "rank -1"),
        (f"{PROCESS}.state", "asleep", "processes.state is none of read"),
        (f"{PROCESS}.state", "exited", "is exited, and 2 samples"),
        (f"{PROCESS}.samples", [], "is read, and 0 samples"),
        (f"{PROCESS}.samples.0", {}, "processes.samples lacks at"),
        (f"{PROCESS}.samples.0.stacks.0.call_frame", [1], "call_frame is no list of 2"),
        (f"{WORLD}.communicator.size", 2**31, "a communicator of 2147483648 ranks"),
        (f"{WORLD}.group", 99, "group names something that isn't there"),
        (f"{WORLD}.group", -1, "group names something that isn't there"),
        (f"{WORLD}.group", [0, 1], "group is of no type"),
        ("queues.0.queue", "receives", "other queues than"),
        (f"{WORLD}.queues.0", 99, "names something that isn't there"),
        (f"{OPERATION}.status", 0, "status is none of pending"),
        (f"{OPERATION}.extra_text.0", None, "extra_text is no text"),
        ("groups", 1, "is no list"),
        ("frames.0.line", "x", "line is no number"),
    ],
)
def test_a_changed_file_is_refused_by_the_name_of_what_is_wrong(
    tmp_path: Path, where: str, value: Any, sentence: str
) -> None:
    """What isn't exactly of the form in which it was saved isn't believed."""
    document = json.loads(job_file.to_bytes(small_job()))
    changed(document, where, value)
    path = tmp_path / "job"
    path.write_text(json.dumps(document))
    with pytest.raises(SavedFileError, match="damaged") as caught:
        load(str(path))
    assert sentence in str(caught.value)


def test_a_cut_off_file_is_refused_wherever_it_was_cut() -> None:
    """No part of a file passes for the whole."""
    content = job_file.to_bytes(small_job()).rstrip()
    for length in range(0, len(content), 97):
        with pytest.raises(SavedFileError):
            job_file.from_bytes(content[:length], "job")
