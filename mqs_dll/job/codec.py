"""Records in terms of JSON and back, exactly, by their own annotations.

A record is an object whose members are the record's fields; one that is left out has its default. A tuple is an
array, an enumeration's member its name in small letters. What JSON can't hold exactly is spelled out: a number beyond
2**53 is a string in hexadecimal, and bytes that are no UTF-8, or text with lone surrogates, are ``{"hex": "..."}``.
Some values that many records have in common stand once in a table, and are numbers in it.

Many values of one type can be folded into a column, which has but once what they have in common: ``{"all": value}`` of
equal ones; ``{"of": columns}``, with a column for each member of records, or for each place of tuples of one length;
``{"each": [...]}`` of what has no members. Values of several types or lengths are ``{"kinds": [...], "of": columns}``:
the number of each one's kind, and a column for each kind.

Reading believes nothing: what doesn't have exactly this form is a DamagedError.
"""

from __future__ import annotations

import dataclasses
import math
import typing
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache
from itertools import repeat
from types import NoneType, UnionType
from typing import Any, NamedTuple

from mqs_dll.job.shared import Shared, grouped

_EXACT = 2**53
"""Integers up to here are exact in every reader of JSON."""

_MISSING = object()


class DamagedError(Exception):
    """What was read isn't what writing makes of any record."""

    def __init__(self, what: str, *members: str) -> None:
        super().__init__(f"{'.'.join(members)} {what}" if members else what)
        self._what = what
        self._members = members

    def within(self, member: str) -> DamagedError:
        """Return the same error of a member's value, for what the member belongs to."""
        return DamagedError(self._what, member, *self._members)


@dataclass
class ValueBudget:
    """How many values may still be unfolded: a short column can stand for more than fit into memory.

    A record counts as many as it has fields, whether or not its column has them: each takes a word, and mostly more.
    """

    left: int

    def take(self, count: int) -> None:
        """Have so many fewer.

        Raises:
            DamagedError: there are no more.
        """
        self.left -= count
        if self.left < 0:
            raise DamagedError("holds more values than any")


class Codec(NamedTuple):
    """How values of one type are written and read."""

    write: Callable[[Any], Any]
    read: Callable[[Any], Any]
    """Raises DamagedError."""
    python: type
    json: tuple[type, ...]
    """What it is written as."""
    kind: Callable[[Any], Hashable] = lambda value: None
    """What values have to be alike in, to be folded together."""
    split: Callable[[Sequence[Any]], Any] | None = None
    """Makes a column of values of one kind; None for what has no members."""
    join: Callable[[Any, int, ValueBudget], Iterable[Any]] | None = None
    """Reads so many values from the columns of their members, and raises DamagedError."""


def fold(codec: Codec, values: Sequence[Any]) -> Any:
    """Return values as a column."""
    if values and values.count(values[0]) == len(values):
        return {"all": codec.write(values[0])}
    if codec.split is None or not values:
        return {"each": [codec.write(value) for value in values]}
    kinds = grouped((codec.kind(value), value) for value in values)
    if len(kinds) == 1:
        return codec.split(values)
    numbers = {kind: number for number, kind in enumerate(kinds)}
    columns = [fold(codec, alike) for alike in kinds.values()]
    return {"kinds": [numbers[codec.kind(value)] for value in values], "of": columns}


def unfold(codec: Codec, column: Any, count: int, budget: ValueBudget) -> Sequence[Any]:
    """Return so many values that fold() made a column of; equal ones are one object.

    Raises:
        DamagedError: it did not, or they need a larger budget.
    """
    budget.take(count + 1)
    if type(column) is dict and len(column) == 1:
        [(form, value)] = column.items()
        if form == "all":
            return [codec.read(value)] * count
        if form == "of" and codec.join is not None:
            return list(codec.join(value, count, budget))
        if form == "each" and type(value) is list and len(value) == count:
            return list(map(codec.read, value))
    if type(column) is dict and column.keys() == {"kinds", "of"}:
        return _mixed(codec, column["kinds"], column["of"], count, budget)
    raise DamagedError(f"is no column of {count} values")


def unfold_counted(codec: Codec, folded: Any, budget: ValueBudget) -> Sequence[Any]:
    """Return the values of which there are a number and a column.

    Raises:
        DamagedError: as unfold(), or there are no such two.
    """
    if type(folded) is not list or len(folded) != 2 or type(folded[0]) is not int or folded[0] < 0:
        raise DamagedError("is no number and no column")
    return unfold(codec, folded[1], folded[0], budget)


def _mixed(codec: Codec, kinds: Any, columns: Any, count: int, budget: ValueBudget) -> list[Any]:
    if type(kinds) is not list or len(kinds) != count or type(columns) is not list:
        raise DamagedError(f"is no column of {count} values")
    if any(type(kind) is not int or not 0 <= kind < len(columns) for kind in kinds):
        raise DamagedError("has values of a kind that isn't there")
    if any(type(each) is dict and "kinds" in each for each in columns):  # else it could be nested as deep as one likes
        raise DamagedError("has kinds of kinds")
    numbers = Counter(kinds)
    of_kind = [iter(unfold(codec, each, numbers[number], budget)) for number, each in enumerate(columns)]
    return [next(of_kind[kind]) for kind in kinds]


class ValueTable:
    """Values that stand once, in the order in which they were first met; others name them by their places."""

    def __init__(self, codec: Codec) -> None:
        self._codec = codec
        self.values: list[Any] = []
        """By place."""
        self._places: dict[Any, int] = {}

    def codec(self) -> Codec:
        """Return a codec that writes a value's place and reads a place."""
        return Codec(self._place, self._at, self._codec.python, (int,))

    def _place(self, value: Any) -> int:
        place = self._places.setdefault(value, len(self.values))
        if place == len(self.values):
            self.values.append(value)
        return place

    def _at(self, place: Any) -> Any:
        if type(place) is not int or not 0 <= place < len(self.values):
            raise DamagedError("names something that isn't there")
        return self.values[place]

    def write(self) -> list[Any]:
        """Return the table itself, after all that refers to it was written."""
        return [self._codec.write(value) for value in self.values]

    def fill(self, values: Any) -> None:
        """Read the table itself, before anything that refers to it.

        Raises:
            DamagedError: it isn't one.
        """
        self.take(_array(values, self._codec.read))

    def fold(self) -> list[Any]:
        """Return the same as write(), folded, behind the number of values."""
        return [len(self.values), fold(self._codec, self.values)]

    def unfold(self, folded: Any, budget: ValueBudget, common: dict[Any, Any]) -> None:
        """Read what fold() made of a table, before anything that refers to it.

        Args:
            folded: what it made.
            budget: for its values.
            common: has values of other tables, which equal ones give way to; the others are added.

        Raises:
            DamagedError: it made no such thing, or it needs a larger budget.
        """
        self.take(unfold_counted(self._codec, folded, budget))
        self.values = [common.setdefault(value, value) for value in self.values]

    def take(self, values: Iterable[Any]) -> None:
        """Have these values for a table."""
        self.values = [Shared(each) if type(each) is tuple else each for each in values]


class Codecs:
    """The codecs of one file.

    Args:
        tables: the types whose values stand in a table, with the table's name.
        old_names: fields with the names that their members have in the file, if an older version wrote it.
    """

    def __init__(self, tables: Mapping[Any, str], old_names: Mapping[str, str] | None = None) -> None:
        self._old_names = old_names or {}
        self._known: dict[Any, Codec] = {}
        made = {name: ValueTable(self.of(annotation)) for annotation, name in tables.items()}
        self.tables: dict[str, ValueTable] = made
        """By name."""
        self._known = {annotation: made[name].codec() for annotation, name in tables.items()}

    def of(self, annotation: Any) -> Codec:
        """Return the codec of a type: a record, a scalar, a tuple of one type, or one of several of these."""
        if annotation not in self._known:
            self._known[annotation] = self._make(annotation)
        return self._known[annotation]

    def _make(self, annotation: Any) -> Codec:
        if annotation in _SCALARS:
            return _SCALARS[annotation]
        origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
        if origin in (UnionType, typing.Union):
            return _one_of([self.of(each) for each in arguments])
        if origin is tuple and len({*arguments} - {...}) == 1:
            return _tuple_of([self.of(each) for each in arguments if each is not ...], fixed=arguments[-1] is not ...)
        return _enumeration(annotation) if issubclass(annotation, Enum) else self._record(annotation)

    def _record(self, cls: type) -> Codec:
        hints, defaults = _hints(cls), _defaults(cls)
        members = [(name, self.of(hints[name]), default) for name, default in defaults.items()]
        writers = [(name, codec.write, default) for name, codec, default in members]
        in_file = [(self._old_names.get(name, name), codec, default) for name, codec, default in members]
        readers = [(name, codec.read, default) for name, codec, default in in_file]
        known = {name for name, _, _ in in_file}

        def check(value: Any) -> None:
            if type(value) is not dict:
                raise DamagedError("is no object")
            if not value.keys() <= known:
                raise DamagedError(f"has a member {min(value.keys() - known)[:40]!r}, which isn't known")

        def write(record: Any) -> dict[str, Any]:
            values = ((name, write, default, getattr(record, name)) for name, write, default in writers)
            return {name: write(value) for name, write, default, value in values if value != default}

        def read(value: Any) -> Any:
            check(value)
            values = []
            for name, read, default in readers:
                found = value.get(name, _MISSING)
                if found is _MISSING and default is _MISSING:
                    raise DamagedError(f"lacks {name}")
                try:
                    values.append(default if found is _MISSING else read(found))
                except DamagedError as error:
                    raise error.within(name) from None
            return cls(*values)

        def split(records: Sequence[Any]) -> Any:
            columns = {}
            for name, codec, default in members:
                values = [getattr(record, name) for record in records]
                if values.count(default) < len(values):
                    columns[name] = fold(codec, values)
            return {"of": columns}

        def join(value: Any, count: int, budget: ValueBudget) -> Iterable[Any]:
            check(value)
            budget.take(count * len(members))
            columns: list[Iterable[Any]] = []
            for name, codec, default in in_file:
                found = value.get(name, _MISSING)
                if found is _MISSING and default is _MISSING:
                    raise DamagedError(f"lacks {name}")
                try:
                    columns.append(repeat(default, count) if found is _MISSING else unfold(codec, found, count, budget))
                except DamagedError as error:
                    raise error.within(name) from None
            return map(cls, *columns)

        return Codec(write, read, cls, (dict,), split=split, join=join)


@cache
def _hints(cls: type) -> dict[str, Any]:
    """Return the types of a record's fields: to work them out takes longer than to read the record."""
    return typing.get_type_hints(cls)


def _defaults(cls: type) -> dict[str, Any]:
    """Return the fields of a record in their order, with their defaults or _MISSING."""
    if dataclasses.is_dataclass(cls):
        fields = dataclasses.fields(cls)
        return {each.name: _MISSING if each.default is dataclasses.MISSING else each.default for each in fields}
    return {name: cls._field_defaults.get(name, _MISSING) for name in cls._fields}  # type: ignore[attr-defined]


# ---------------------------------------------------------------- what isn't a record


def _one_of(codecs: list[Codec]) -> Codec:
    """Return the codec of a union, whose types have to differ in JSON."""
    written = {codec.python: codec for codec in codecs}
    readers = {kind: codec.read for codec in codecs for kind in codec.json}
    joiners = {kind: codec.join for codec in codecs if codec.join for kind in codec.json}

    def of(value: Any) -> Codec:
        return written[tuple if type(value) is Shared else type(value)]

    def write(value: Any) -> Any:
        return of(value).write(value)

    def read(value: Any) -> Any:
        reader = readers.get(type(value))
        if reader is None:
            raise DamagedError("is of no type that it may have")
        return reader(value)

    def kind(value: Any) -> Hashable:
        return of(value).python, of(value).kind(value)

    def split(values: Sequence[Any]) -> Any:
        return fold(of(values[0]), values)

    def join(value: Any, count: int, budget: ValueBudget) -> Iterable[Any]:
        joiner = joiners.get(type(value))
        if joiner is None:
            raise DamagedError("is of no type that it may have")
        return joiner(value, count, budget)

    return Codec(write, read, object, tuple(readers), kind, split, join)


def _tuple_of(items: list[Codec], *, fixed: bool) -> Codec:
    """Return the codec of a tuple of any length, or of as many values as there are codecs, which are all the same."""
    item = items[0]

    def write(values: tuple[Any, ...]) -> list[Any]:
        return [item.write(value) for value in values]

    def read(values: Any) -> tuple[Any, ...]:
        found = _array(values, item.read)
        if fixed and len(found) != len(items):
            raise DamagedError(f"is no list of {len(items)}")
        return found

    def split(values: Sequence[Any]) -> Any:
        return {"of": [fold(item, each) for each in zip(*values, strict=True)]}

    def join(value: Any, count: int, budget: ValueBudget) -> Iterable[Any]:
        columns = _array(value, lambda each: unfold(item, each, count, budget))
        if fixed and len(columns) != len(items):
            raise DamagedError(f"is no list of {len(items)}")
        return zip(*columns, strict=True) if columns else repeat((), count)

    return Codec(write, read, tuple, (list,), len, split, join)


def _array(values: Any, read: Callable[[Any], Any]) -> tuple[Any, ...]:
    if type(values) is not list:
        raise DamagedError("is no list")
    return tuple([read(value) for value in values])


def _enumeration(cls: type[Enum]) -> Codec:
    members = {member.name.lower(): member for member in cls}

    def read(value: Any) -> Enum:
        member = members.get(value) if type(value) is str else None
        if member is None:
            raise DamagedError(f"is none of {', '.join(members)}")
        return member

    return Codec(lambda member: member.name.lower(), read, cls, (str,))


def _write_integer(number: int) -> int | str:
    return number if -_EXACT <= number <= _EXACT else f"{number:#x}"


def _read_integer(value: Any) -> int:
    try:
        number = int(value, 16) if type(value) is str and len(value) <= len("-0x") + 16 else value
    except ValueError:
        raise DamagedError("is no number") from None
    if type(number) is not int or not -(2**63) <= number < 2**64:
        raise DamagedError("is no number of 64 bits")
    return number


def _read_float(value: Any) -> float:
    if type(value) not in (int, float) or not math.isfinite(value):
        raise DamagedError("is no number")
    return float(value)


def _read_boolean(value: Any) -> bool:
    if type(value) is not bool:
        raise DamagedError("is neither true nor false")
    return value


def _read_none(value: Any) -> None:
    if value is not None:
        raise DamagedError("is not null")


def _write_bytes(data: bytes) -> str | dict[str, str]:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"hex": data.hex()}


def _read_bytes(value: Any) -> bytes:
    if type(value) is str:
        return _encoded(value)
    if type(value) is not dict or value.keys() != {"hex"} or type(value["hex"]) is not str:
        raise DamagedError("is no text")
    try:
        return bytes.fromhex(value["hex"])
    except ValueError:
        raise DamagedError("is not hexadecimal") from None


def _encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise DamagedError("has half a character") from None


def _write_text(text: str) -> str | dict[str, str]:
    try:
        text.encode()
    except UnicodeEncodeError:  # of a path that is no UTF-8: readers of JSON may join or refuse its surrogates
        return {"hex": text.encode("utf-8", "surrogatepass").hex()}
    return text


def _read_text(value: Any) -> str:
    try:
        return _read_bytes(value).decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        raise DamagedError("is no text") from None


_SCALARS: dict[Any, Codec] = {
    int: Codec(_write_integer, _read_integer, int, (int, str)),
    float: Codec(float, _read_float, float, (float, int)),
    bool: Codec(bool, _read_boolean, bool, (bool,)),
    NoneType: Codec(lambda value: None, _read_none, NoneType, (NoneType,)),
    bytes: Codec(_write_bytes, _read_bytes, bytes, (str, dict)),
    str: Codec(_write_text, _read_text, str, (str, dict)),
}
