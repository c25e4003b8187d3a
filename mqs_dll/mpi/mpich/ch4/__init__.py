"""The device ch4, as it is since 4.0: messages within a node are active messages over shared memory.

Rooms by what they know: traffic (which request is what), receives, arrivals (unexpected messages), sends, cells and
postponed (what is known of a send in the cells of shared memory, and in the queue before them), departures (in which
order messages left by the cells), alone (communicators of one process), network (what the netmod keeps for itself), and
device, which ties them together.
"""

from __future__ import annotations

from mqs_dll.mpi.mpich.ch4.device import Ch4

__all__ = ["Ch4"]
