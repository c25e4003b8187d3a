"""The members of pml/cm's requests that the walkers read, under Open MPI's names (4.1.0 to 5.0.11)."""

from __future__ import annotations

from mqs_dll.view import View

ALL: tuple[type[View], ...] = ()
