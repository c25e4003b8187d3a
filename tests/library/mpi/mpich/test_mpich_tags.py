"""What MPICH's internal tags stand for."""

from __future__ import annotations

import pytest

from mqs_dll.library.mpi.mpich import contexts, tags


@pytest.mark.parametrize(
    ("tag", "text"),
    [
        (1, "collective: MPI_Barrier, alone or in another one"),
        (14, "collective: MPI_Allreduce, alone or in another one"),
        (28, "collective: MPI_Reduce_scatter_block, alone or in another one"),
        (30, "fault tolerance (ULFM)"),
        (31, "collective by the library HCOLL"),
        (286, "collective by the library HCOLL"),
        (287, "nonblocking collective no. 1 or neighborhood collective"),
        ((1 << 28) - 1, "nonblocking collective no. 268435169 or neighborhood collective"),
        (1 << 28 | 5, "making of a communicator (context id agreement)"),
        (1 << 30 | 5, "making of a communicator (context id agreement)"),
        (12, "internal traffic of MPICH, tag 12"),
    ],
)
def test_an_internal_tag_names_its_collective(tag: int, text: str) -> None:
    """Each tag of a collective's message says which it is, in one line of extra_text."""
    assert tags.label(tag) == text
    assert len(text) <= 63


def test_a_tag_tells_which_messages_are_no_collective_s() -> None:
    """Those of mpir_tags.h that no code uses, and 0, are the program's own."""
    assert [tag for tag in range(289) if not tags.is_collectives(tag)] == [0, 12, 13, 15, 16, 18, 19, 21, 22, 23]
    assert tags.is_collectives(1 << 30)


def test_traffic_of_collectives_is_known_by_the_context_id() -> None:
    """The lowest bit marks collectives; the rest is the communicator, also where the highest bit of 16 is set."""
    assert contexts.is_collective(0x8011)
    assert not contexts.is_collective(0x8010)
    assert contexts.communicator_of(0x8011) == 0x8010
