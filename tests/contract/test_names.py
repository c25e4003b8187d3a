"""The rules of names (MPI 4.1 section 8.8) in the 64-byte field."""

from __future__ import annotations

import pytest

from mqs_dll.contract.abi import Label
from mqs_dll.contract.names import called, fit, marked, read_marks


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        (b"", b""),
        (b"solver", b"solver"),
        (b"  leading", b"  leading"),
        (b"trailing   ", b"trailing"),
        (b"   ", b""),
        (b"x" * 63, b"x" * 63),
        (b"x" * 128, b"x" * 63),
        ("é".encode() * 40, "é".encode() * 31),
        (b"x" * 62 + "é".encode(), b"x" * 62),
        (b"x" * 61 + "é".encode(), b"x" * 61 + "é".encode()),
        (b"x" * 60 + "€".encode() + b"tail", b"x" * 60 + "€".encode()),
        (b"x" * 61 + "€".encode(), b"x" * 61),
        ("\N{GRINNING FACE}".encode() * 16, "\N{GRINNING FACE}".encode() * 15),
        (b"Str\xf6mung", b"Str\xf6mung"),
        (b"caf\xe9", b"caf\xe9"),
        (b"\xf6" * 70, b"\xf6" * 63),
        (b"x" * 62 + b"\xe9", b"x" * 62 + b"\xe9"),
        (b"x" * 62 + b"\xe9t\xe9", b"x" * 62 + b"\xe9"),
        (b"Str\xf6mung" + b"x" * 54 + b"\xe9", b"Str\xf6mung" + b"x" * 54 + b"\xe9"),
        ("é".encode() + b"x" * 60 + b"\xe9", "é".encode() + b"x" * 60),
    ],
)
def test_a_name_fits_in_63_bytes_by_the_rules_of_mpi(name: bytes, shown: bytes) -> None:
    """Leading blanks count, trailing ones don't, and a cut falls on a character boundary where the name is UTF-8."""
    assert fit(name) == shown


def test_a_name_that_the_mpi_cut_within_a_character_loses_the_rest_of_it() -> None:
    """Open MPI keeps the first 63 bytes that MPI_Comm_set_name was given, whatever character they end in."""
    assert fit(("ξ" * 40).encode()[:63]) == ("ξ" * 31).encode()


@pytest.mark.parametrize(
    ("label", "field"),
    [
        (Label(b"halo", b"", 4, freed=True), b"halo [inter, 4 remote, freed]"),
        (Label(b"plain ", b""), b"plain"),
        (Label(b"", b"", internal=True), b"[internal]"),
        (Label(b"", b"dup of halo"), b"[dup of halo]"),
        (Label(b"", b"dup of halo", freed=True), b"[dup of halo] [freed]"),
        (Label(b"n" * 55, b"", freed=True), b"n" * 55 + b" [freed]"),
        (Label(b"", b"dup of " + b"n" * 70, 2), b"[dup of " + b"n" * 33 + b"...] [inter, 2 remote]"),
    ],
)
def test_marks_follow_a_name_or_words_in_its_place(label: Label, field: bytes) -> None:
    """What is in brackets behind a name, or in its place, is libmqs's; it is read as it was written."""
    assert marked(label) == field
    name = called(label._replace(name=fit(label.name)))
    assert len(field) == 63 or read_marks(field) == label._replace(name=name, description=b"")


def test_no_mark_cuts_a_name() -> None:
    """A mark that doesn't fit whole behind the whole name is left out; another that fits stays."""
    assert marked(Label(b"n" * 56, b"", freed=True)) == b"n" * 56
    assert marked(Label(b"n" * 50, b"", 4, freed=True)) == b"n" * 50 + b" [freed]"
    assert marked(Label(("é" * 30).encode(), b"", 4)) == ("é" * 30).encode()
    assert marked(Label(b"n" * 100, b"", 4, internal=True)) == b"n" * 63


@pytest.mark.parametrize("field", [b"halo [new]", b"halo[freed]", b"[dup of halo]", b"halo [freed]\n", b"[]"])
def test_what_libmqs_does_not_write_is_part_of_the_name(field: bytes) -> None:
    """A program may use brackets in its names."""
    assert read_marks(field) == Label(field, b"")
