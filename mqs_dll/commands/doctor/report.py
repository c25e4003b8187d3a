"""A Diagnosis for people, as a renderable of rich, and for machines: doctor-schema-2.json, machine-schema-1.json."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from mqs_dll.commands.doctor.diagnosis import (
    Capability,
    Diagnosis,
    FileFacts,
    Limitation,
    MachineDiagnosis,
    ProcessFacts,
    Remedy,
    Visibility,
)
from mqs_dll.contract.abi import MpiFacts
from mqs_dll.contract.escape import printable, visible
from mqs_dll.report.fields import text_for_json

SCHEMA = "mqs-doctor/2"
"""Changes with every change that could break a reader; additions don't."""
MACHINE_SCHEMA = "mqs-doctor-machine/1"
"""The same of what is printed without a process and a file."""

_MAX_NAMES = 3
"""Communicators that are named; of more it is said how many there are."""


# ---------------------------------------------------------------- text


def render(diagnosis: Diagnosis | MachineDiagnosis) -> RenderableType:
    """Return everything in a diagnosis, ready for Console.print."""
    if isinstance(diagnosis, MachineDiagnosis):
        return Group(*_machine(diagnosis), *_remedies(diagnosis.remedies))
    none = "nothing is known that would show more" if diagnosis.verdict is Visibility.PARTLY else "nothing"
    return Group(
        *_heading(diagnosis),
        *_verdict(diagnosis),
        *_layouts(diagnosis),
        *_parts(diagnosis),
        *_remedies(diagnosis.remedies, none),
    )


_IN_WORDS = {Visibility.WHOLE: ("yes", ""), Visibility.PARTLY: ("in part", "yellow"), Visibility.NOTHING: ("no", "red")}


def _machine(diagnosis: MachineDiagnosis) -> Iterator[RenderableType]:
    yield Text(f"This machine, as user {visible(diagnosis.user)}", style="bold")
    yield _title("What can be had of this user's jobs")
    for ability in diagnosis.abilities:
        word, style = _IN_WORDS[ability.seen]
        yield _line(f"{ability.name}: {word}; {visible(ability.why)}", style)
    yield _title("What the kernel sets")
    for each in diagnosis.circumstances:
        yield _line(f"{each.name}: {visible(each.words)}", "yellow" if each.holds else "")
        if each.remedy:
            yield _line(f"  {visible(each.remedy)}", "dim")


def _heading(diagnosis: Diagnosis) -> Iterator[RenderableType]:
    if diagnosis.process is not None:
        yield Text(_process_title(diagnosis.process), style="bold")
    yield Text(_mpi_title(diagnosis.mpi), style="" if diagnosis.process else "bold")
    build = f", build {diagnosis.mpi.build}" if diagnosis.mpi.build else ""
    yield Text(f"library {visible(diagnosis.library or 'that no file is known of')}{build}")
    if diagnosis.file is not None:
        yield Text(_file_words(diagnosis.file))


def _process_title(process: ProcessFacts) -> str:
    title = f"Process {process.pid} ({visible(process.program)})"
    if process.global_rank is not None:
        title += f", rank {process.global_rank} of MPI_COMM_WORLD"
    if process.stop_time is not None:
        title += f", stopped for {process.stop_time * 1000:.1f} ms"
    return title


def _mpi_title(mpi: MpiFacts) -> str:
    return visible(f"{mpi.name} {mpi.release}{f', {mpi.transport}' if mpi.transport else ''}")


def _file_words(file: FileFacts) -> str:
    stripped = "stripped" if file.stripped else "with symbols for debuggers"
    if not file.debug_files:
        return f"{stripped}, without debug information"
    return f"{stripped}, debug information in {visible(', '.join(file.debug_files))}"


def _verdict(diagnosis: Diagnosis) -> Iterator[RenderableType]:
    yield Text("")
    if diagnosis.no_layout is not None:
        yield Text(f"Nothing can be shown: {visible(diagnosis.no_layout)}", style="red")
    elif diagnosis.parts is None:
        yield Text("libmqs has layouts for it; a running process shows what can be seen: mqs doctor PID")
    elif diagnosis.verdict is Visibility.WHOLE:
        yield Text("All queues of all communicators can be seen.", style="green")
    else:
        yield Text("A part can't be seen.", style="yellow")


def _layouts(diagnosis: Diagnosis) -> Iterator[RenderableType]:
    if diagnosis.rungs:
        yield _title("Layouts")
    for rung in diagnosis.rungs:
        yield _line(f"{visible(rung.source)}: {visible(', '.join(rung.structs))}")
    yield from _section("Checks that held", diagnosis.checks)
    yield from _section("Near profiles that were refused", diagnosis.refusals)


def _parts(diagnosis: Diagnosis) -> Iterator[RenderableType]:
    if diagnosis.parts is not None:
        yield _title("Communicators")
        for part in diagnosis.parts:
            yield from _part(part)


def _part(part: Capability) -> Iterator[RenderableType]:
    if part.seen or not part.obstacles:
        yield _line(f"{part.name}: seen on {_count(part.seen)}")
    for obstacle in part.obstacles:
        yield _line(f"{part.name}, on {_names(obstacle)}: {visible(obstacle.reason)}", "yellow")


def _names(obstacle: Limitation) -> str:
    names = obstacle.communicators
    if len(names) > _MAX_NAMES:
        return _count(len(names))
    return ", ".join(f'"{printable(name)}"' for name in names)


def _count(communicators: int) -> str:
    return "1 communicator" if communicators == 1 else f"{communicators} communicators"


def _remedies(remedies: Sequence[Remedy], none: str = "nothing") -> Iterator[RenderableType]:
    yield _title("What to do")
    for remedy in remedies:
        yield _line(visible(remedy.what), "cyan")
        yield _line(f"  {visible(remedy.why)}")
    if not remedies:
        yield _line(none, "dim")


def _section(title: str, sentences: Iterable[str]) -> Iterator[RenderableType]:
    lines = [_line(visible(sentence)) for sentence in sentences]
    if lines:
        yield _title(title)
        yield from lines


def _title(title: str) -> Text:
    return Text(f"\n{title}", style="bold")


def _line(text: str, style: str = "") -> RenderableType:
    return Padding(Text(text, style=style), (0, 0, 0, 2), expand=False)


# ---------------------------------------------------------------- JSON


def as_json(diagnosis: Diagnosis | MachineDiagnosis) -> str:
    """Return a diagnosis as one JSON document, in ASCII, without a newline at the end."""
    document = _machine_json(diagnosis) if isinstance(diagnosis, MachineDiagnosis) else to_json(diagnosis)
    return json.dumps(document, indent=2)


def _machine_json(diagnosis: MachineDiagnosis) -> dict[str, Any]:
    document = {
        "schema": MACHINE_SCHEMA,
        "verdict": diagnosis.verdict.value,
        "user": diagnosis.user,
        **{each.name: {"seen": each.seen.value, "why": each.why} for each in diagnosis.abilities},
        "circumstances": [each._asdict() for each in diagnosis.circumstances],
        "remedies": [remedy._asdict() for remedy in diagnosis.remedies],
    }
    readable: dict[str, Any] = _readable(document)
    return readable


def to_json(diagnosis: Diagnosis) -> dict[str, Any]:
    """Return a diagnosis in terms of JSON."""
    document = {
        "schema": SCHEMA,
        "verdict": diagnosis.verdict.value,
        "process": diagnosis.process and diagnosis.process._asdict(),
        "file": diagnosis.file and diagnosis.file._asdict(),
        "mpi": _mpi(diagnosis.mpi, diagnosis.library),
        "no_layout": diagnosis.no_layout,
        "layouts": [rung._asdict() for rung in diagnosis.rungs],
        "checks": diagnosis.checks,
        "refusals": diagnosis.refusals,
        "communicators": None if diagnosis.parts is None else {part.name: _part_json(part) for part in diagnosis.parts},
        "refused_profiles": diagnosis.refused_profiles,
        "remedies": [remedy._asdict() for remedy in diagnosis.remedies],
    }
    readable: dict[str, Any] = _readable(document)
    return readable


def _readable(value: Any) -> Any:
    if isinstance(value, str):
        return text_for_json(value)
    if isinstance(value, dict):
        return {key: _readable(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_readable(each) for each in value]
    return value


def _mpi(mpi: MpiFacts, library: str | None) -> dict[str, Any]:
    return {
        "name": mpi.name,
        "release": mpi.release,
        "transport": mpi.transport,
        "build": mpi.build,
        "library": library,
        "profile": mpi.profile and mpi.profile._asdict(),
    }


def _part_json(part: Capability) -> dict[str, Any]:
    return {"seen": part.seen, "obstacles": [_obstacle(obstacle) for obstacle in part.obstacles]}


def _obstacle(obstacle: Limitation) -> dict[str, Any]:
    names = [name.decode("utf-8", "replace") for name in obstacle.communicators]
    return {"reason": obstacle.reason, "remedy": obstacle.remedy, "communicators": names}
