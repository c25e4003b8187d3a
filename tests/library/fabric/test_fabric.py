"""The records of what a fabric holds, whichever fabric made them."""

from __future__ import annotations

import pytest

from mqs_dll.library.fabric import Arrived, Posted, Received

UCX = 0x55AA10
"""The address of the sender's request."""


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (Arrived(7, 100, 100, 0x1000, rendezvous=False), "eager: all of it is here"),
        (Arrived(7, 100, 60, 0x1000, rendezvous=False), "eager: a part of it is here"),
        (Arrived(7, 100, 0, 0, rendezvous=True), "rendezvous: its 100 bytes are with the sender"),
        (Arrived(7, 100, 100, 0x1000, rendezvous=False, request=UCX), "message 0x55aa10: all of it is here"),
        (
            Arrived(7, 100, 0, 0, rendezvous=True, request=UCX),
            "message 0x55aa10: rendezvous with the data at the sender",
        ),
    ],
)
def test_a_message_says_how_much_of_it_is_here(message: Arrived, said: str) -> None:
    """With the sender's request, which joins it to its send, where the fabric tells that."""
    assert message.how() == said


def test_a_receive_that_waits_no_more_has_the_tag_that_it_asked_for() -> None:
    """That of its message stands for it where what it asked for isn't kept."""
    asked, message = Posted(0x1000, 5, 0xFF, 1, 0, 0, 0), Arrived(7, 0, 0, 0, rendezvous=False)
    assert Received(0x1000, 0, message, asked).tag == 5
    assert Received(0x1000, 0, None, asked).tag == 5
    assert Received(0x1000, 0, message).tag == 7
