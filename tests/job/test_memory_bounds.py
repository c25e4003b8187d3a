"""Inputs of a few bytes that ask for gigabytes: each is read, or refused by a sentence, in 512 MB of address space."""

from __future__ import annotations

import gzip
import json
import re
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mqs_dll.contract.errors import SavedFileError, TooMuchError
from mqs_dll.contract.interface import TargetImage
from mqs_dll.job import json_memory as json_memory
from mqs_dll.job import saved
from mqs_dll.library import bounds
from mqs_dll.library.memory import MAX_KEPT, Memory
from mqs_dll.library.session import Library
from tests.support.hostile_inputs import BASE, INPUTS, Endless
from tests.support.memory_image import MemoryImage
from tests.support.synthetic_job import ring
from tests.support.targets import python_module

ADDRESS_SPACE = 512 << 20
"""Bytes, of which the interpreter and drgn take two hundred million."""

MAX_TAKEN = 200
"""MiB of memory in use, more than before."""

PATIENCE = 100.0

LARGE = 10_000
"""Ranks of an honest job."""

READ = {
    "saved_hidden_groups": ("exit code 0: ", 20),
    "saved_many_hidden_groups": ("exit code 0: ", 40),
    "saved_shared_group": ("exit code 0: ", 100),
    "saved_window": ("exit code 0: ", 20),
    "answer_sizes": ("131073 ranks", 100),
    "environment_size": ("has 2147483647 ranks", 20),
    "environment_length": ("67108864 bytes", 150),
    "openmpi_sparse_groups": ("15 times 1048576 ranks", 150),
    "many_calls": ("40 calls", 100),
    "core_strings": ("0 letters", 100),
}
"""What is read all the same, what comes of it, and how many MiB that may take."""

REFUSED = {
    "saved_brackets": "exit code 3: .* needs more memory than there is: some 2708 MiB of",
    "saved_objects": "exit code 3: .* stands for more than 4096 MiB",
    "saved_nested": "exit code 3: .* needs more memory than there is: some 2117 MiB of",
    "saved_bomb": "exit code 3: .* needs more memory than there is: some",
    "saved_packed_brackets": "exit code 3: .* (needs more memory than there is: some|stands for more than 4096 MiB)",
    "saved_alphabet": "exit code 3: .* needs more memory than there is: some",
    "answer_bomb": "DamagedError holds more than 67108864 bytes",
    "answer_brackets": "DamagedError stands for more than 256 MiB",
    "answer_objects": "DamagedError stands for more than 256 MiB",
    "answer_nested": "DamagedError stands for more than 256 MiB",
    "answer_groups": "DamagedError has larger groups than any",
    "answer_columns": "DamagedError holds more values than any",
    "answer_records": "DamagedError holds more values than any",
    "openmpi_table": "TooMuchError .* 67108864 bytes at once",
    "openmpi_full_table": "TooMuchError .* 4194304 objects",
    "openmpi_group": "TooMuchError .* 67108864 bytes at once",
    "openmpi_group_of_many": "TooMuchError .* 4194304 objects",
    "mpich_map": "TooMuchError .* 4194304 objects",
    "mpich_table": "TooMuchError .* 4194304 objects",
    "mpich_pairs": "TooMuchError .* 4194304 objects",
    "mpich_group": "TooMuchError .* 4194304 objects",
    "core_segments": "CoreError .* is damaged: it says that it holds 4294967295 parts",
    "core_notes": "CoreError .* doesn't show what program it is of",
    "core_mappings": "CoreError .* holds nothing of what the process had written",
    "library_segments": "FileError .* its segments have more than 256 MiB",
    "library_zeros": "FileError .* cannot read 2147483648 bytes",
}
"""What is refused, and by which sentence."""


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    """Run a command in no more memory than there may be."""
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, preexec_fn=_limit, check=False)


def _read(name: str, folder: Path) -> dict[str, Any]:
    done = _run(*python_module("tests.support.hostile_inputs"), name, str(folder))
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_each_hostile_input_is_read_or_refused() -> None:
    """No input is without its test."""
    assert {*READ, *REFUSED} == set(INPUTS)


@pytest.mark.parametrize("name", READ)
def test_a_size_that_somebody_claims_takes_no_memory(name: str, tmp_path: Path) -> None:
    """What is known of sizes is read, and takes about as much as what is there."""
    text, most = READ[name]
    found = _read(name, tmp_path)
    assert found["outcome"] == "Outcome", found
    assert text in found["text"]
    assert found["peak"] - found["before"] < most, found


@pytest.mark.parametrize("name", REFUSED)
def test_what_would_take_too_much_memory_is_refused_by_a_sentence(name: str, tmp_path: Path) -> None:
    """It is refused before it takes that, and not by the end of all memory."""
    found = _read(name, tmp_path)
    said = f"{found['outcome']} {found['text']}".removeprefix("Outcome ")
    assert re.match(REFUSED[name], said, re.DOTALL), found
    assert found["peak"] - found["before"] < MAX_TAKEN, found


def test_a_large_job_is_read_in_as_much(tmp_path: Path) -> None:
    """A saved job of ten thousand ranks, compressed too, is loaded and judged in the same address space."""
    content = saved.to_bytes(ring(LARGE))
    for name, data in (("job", content), ("job.gz", gzip.compress(content, 1))):
        (tmp_path / name).write_bytes(data)
        done = _run(sys.executable, "-m", "mqs_dll", "job", "--load", str(tmp_path / name))
        assert done.returncode == 1, done.stderr
        assert done.stdout.startswith("STUCK FOR GOOD: ranks [0-9999] wait in a circle")


def test_the_memory_that_a_text_of_json_takes_is_known_before_it_is_read() -> None:
    """The estimate is never less than what Python takes, except for what a few objects take."""
    for text in (
        b"[" + b"[]," * 100_000 + b"1]",
        b"[" + b'{"":{}},' * 50_000 + b"1]",
        b'["' + b"x" * 1_000_000 + b'"]',
    ):
        assert json_memory.cost(text) > _size(json.loads(text))


def _size(value: Any) -> int:
    own = sys.getsizeof(value)
    if isinstance(value, dict):
        return own + sum(map(_size, value.values()))
    return own + sum(map(_size, value)) if isinstance(value, list) else own


def test_a_file_that_unpacks_to_hundreds_of_times_its_size_is_no_job(tmp_path: Path) -> None:
    """Where there is memory enough, too: a job unpacks to some twenty times."""
    path = tmp_path / "job.gz"
    with gzip.open(path, "wb") as file:
        file.write(b'{"format": "mqs-job/2", "job": ')
        for _ in range(100):
            file.write(b" " * 1_000_000)
    with pytest.raises(SavedFileError, match="unpacks to more than 300 times its size"):
        saved.load(str(path))


def test_what_calls_have_left_is_dropped_where_it_is_much() -> None:
    """Bytes that were read, and what was made of them, are kept from call to call up to a bound."""
    memory = Memory(Endless({}, 3))
    memory.revalidate()
    for place in range(MAX_KEPT >> 20):
        memory.start()
        memory.read(BASE + (place << 20), 1 << 20)
        memory.cache["something"] = 7
    assert memory.cache
    memory.read(BASE - (1 << 20), 8)
    memory.start()
    assert not memory.cache
    memory.cache["something"] = memory.pointers(BASE, bounds.MAX_OBJECTS // 2 + 1)
    memory.start()
    assert not memory.cache


def test_the_end_of_all_memory_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where memory ends all the same, a call of the interface says so, and the next one works."""

    class Full(MemoryImage):
        def fetch(self, address: int, size: int) -> bytes:
            raise MemoryError

    session = Library().setup_image(MemoryImage({}).image)
    monkeypatch.setattr(session, "need_adapter", _RunsOut)
    process = session.setup_process(Full({}))
    for _ in range(2):
        with pytest.raises(TooMuchError, match="all the memory"):
            process.has_queues()


class _RunsOut:
    def attach(self, image: TargetImage, memory: Memory) -> None:
        """Read the memory."""
        memory.read(BASE, 8)
