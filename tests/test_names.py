"""The rules of names (MPI 4.1 section 8.8) in the 64-byte field."""

from __future__ import annotations

import pytest

from mqs_dll.names import fit, marked


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
    ],
)
def test_a_name_fits_in_63_bytes_by_the_rules_of_mpi(name: bytes, shown: bytes) -> None:
    """Leading blanks count, trailing ones don't, and a cut falls on a character boundary where the name is UTF-8."""
    assert fit(name) == shown


def test_a_name_that_the_mpi_cut_within_a_character_loses_the_rest_of_it() -> None:
    """Open MPI keeps the first 63 bytes that MPI_Comm_set_name was given, whatever character they end in."""
    assert fit(("ξ" * 40).encode()[:63]) == ("ξ" * 31).encode()


def test_marks_come_whole_and_the_name_is_cut() -> None:
    """The brackets behind a name tell what it is, and so survive a long name."""
    assert marked(b"halo", [b"inter, 4 remote", b"freed"]) == b"halo [inter, 4 remote, freed]"
    assert marked(b"n" * 63, [b"freed"]) == b"n" * 55 + b" [freed]"
    assert marked(b"", [b"internal"]) == b"[internal]"
    assert marked(b"plain ", []) == b"plain"
