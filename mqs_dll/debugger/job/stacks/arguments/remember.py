"""What was followed once is remembered: while we run, and by build ID also from run to run, in the user's cache.

A file of the cache is believed if it is ours alone and well-formed to the last member; one that isn't is followed
again. Nothing depends on there being a cache.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from mqs_dll.debugger.job.stacks.arguments.flow import Followed, Goal, UnknownWayError
from mqs_dll.debugger.job.stacks.arguments.values import OPERATIONS, WORD, Label, Value

_MAX_BYTES = 1 << 20
"""Of one file."""
_MAX_PLACES = 1 << 14
_DEEPEST = 16

_known: dict[tuple[str, int, Goal], Followed | str] = {}
"""By build, entry and goal; a text where it can't be followed."""


class _DamagedError(Exception):
    """What was read is nothing that was written."""


def remembered(build: str, is_for_good: bool, entry: int, goal: Goal, follow: Callable[[], Followed]) -> Followed:
    """Return what following a function gives, which is done where nobody remembers it.

    Args:
        build: identifies the loaded file.
        is_for_good: whether that will be so in years.
        entry: where the function starts.
        goal: what it is followed to.
        follow: follows it.

    Raises:
        UnknownWayError: it can't be followed.
    """
    key = (build, entry, goal)
    found = _known.get(key)
    folder = _folder() if is_for_good and not goal.jumps else None
    path = folder and folder / f"{_digest(repr(key))}.json"
    if found is None and path:
        found = _read(path)
    if found is None:
        found = _follow(follow, path)
    if len(_known) >= _MAX_PLACES:
        _known.clear()
    _known[key] = found
    if isinstance(found, str):
        raise UnknownWayError(found)
    return found


def _follow(follow: Callable[[], Followed], path: Path | None) -> Followed | str:
    found: Followed | str
    try:
        found = follow()
    except UnknownWayError as error:
        found = str(error)
        if error.is_by_chance:
            return found
    if path:
        _write(path, {"unknown": found} if isinstance(found, str) else {"followed": found})
    return found


def _folder() -> Path | None:
    """Return where this version's files lie, None for a user who has no such place."""
    roots = (os.environ.get("XDG_CACHE_HOME") or "", os.path.expanduser("~/.cache"))  # noqa: PTH111, Path's may raise
    root = next((root for root in roots if root.startswith("/")), None)
    return None if root is None else Path(root) / "libmqs" / f"calls-{version()}"


@cache
def version() -> str:
    """Return what identifies this version of following: what another one has followed may be wrong."""
    sources = sorted(Path(__file__).parent.glob("*.py"))
    return _digest("".join(path.read_text(encoding="utf-8") for path in sources))[:16]


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _write(path: Path, found: Any) -> None:
    """Write a file at once, or not at all."""
    with suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=path.parent, delete=False) as file:
            try:
                json.dump(found, file)
                file.close()
                Path(file.name).replace(path)
            except OSError:
                Path(file.name).unlink()


def _read(path: Path) -> Followed | str | None:
    """Return what a file says, None where there is none to be believed."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        found = os.fstat(file)
        is_ours = stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o022
        if not is_ours or found.st_size > _MAX_BYTES:
            return None
        return _followed(json.loads(os.read(file, _MAX_BYTES)))
    except (OSError, ValueError, RecursionError, _DamagedError):
        return None
    finally:
        os.close(file)


# ---------------------------------------------------------------- from JSON


def _followed(data: Any) -> Followed | str:
    if type(data) is dict and data.keys() == {"unknown"} and type(data["unknown"]) is str:
        return str(data["unknown"])
    if type(data) is not dict or data.keys() != {"followed"}:
        raise _DamagedError
    pointer, passed, held, kept, fresh, target = _list(data["followed"], 6)
    base, offset = _list(pointer, 2)
    return Followed(
        (_integer(base), _integer(offset)),
        tuple((_integer(number), _value(value)) for number, value in (_list(each, 2) for each in _list(passed))),
        tuple((_text(name), _value(value)) for name, value in (_list(each, 2) for each in _list(held))),
        tuple(
            (_integer(base), _integer(offset), _value(value))
            for base, offset, value in (_list(each, 3) for each in _list(kept))
        ),
        tuple(_label(each) for each in _list(fresh)),
        None if target is None else _label(target),
    )


def _value(data: Any) -> Value:
    label, size = _list(data, 2)
    if type(size) is not int or not 0 < size <= WORD:
        raise _DamagedError
    return Value(_label(label), size)


def _label(data: Any, depth: int = 0) -> Label:
    kind, *members = _list(data)
    forms = _FORMS.get(kind) if type(kind) is str else None
    if forms is None or len(forms) != len(members) or depth > _DEEPEST:
        raise _DamagedError
    return (kind, *(form(member, depth + 1) for form, member in zip(forms, members, strict=True)))


def _list(data: Any, length: int | None = None) -> list[Any]:
    if type(data) is not list or (length is not None and len(data) != length):
        raise _DamagedError
    return data


def _integer(data: Any, depth: int = 0) -> int:
    if type(data) is not int or not -(1 << 64) < data < 1 << 64:
        raise _DamagedError
    return data


def _size(data: Any, depth: int = 0) -> int:
    if type(data) is not int or not 0 < data <= WORD:
        raise _DamagedError
    return data


def _text(data: Any, depth: int = 0) -> str:
    if type(data) is not str:
        raise _DamagedError
    return data


def _operation(data: Any, depth: int = 0) -> str:
    if type(data) is not str or data not in OPERATIONS:
        raise _DamagedError
    return data


def _integers(data: Any, depth: int = 0) -> tuple[int, ...]:
    return tuple(_integer(each) for each in _list(data))


_FORMS: dict[str, tuple[Callable[[Any, int], Any], ...]] = {
    "arg": (_integer,),
    "entry": (_text,),
    "const": (_integer,),
    "image": (_integer,),
    "stack": (_integer, _integer),
    "set": (_integer, _text, _integers),
    "phi": (_integer, _text, _integers),
    "load": (_integer, _label, _size),
    "ext": (_text, _size, _label),
    "op": (_operation, _size, _label, _label),
}
"""What the members of labels are (values)."""
