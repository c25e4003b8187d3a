"""libmqs: the message queues of a hung MPI program, through the MQS interface of 1999.

``mqs_dll`` is the logic of ``libmqs.so`` (session.py and below) and the debugger side of the command ``mqs``.
docs/architecture.md is the map. The Python interface is api.py: import its names from here. They are looked up when
they are used, because ``libmqs.so`` imports this package inside a debugger, and needs none of them there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mqs_dll.api import *  # noqa: F403

__version__ = "0.1.0"

_OF_API = frozenset(
    (
        "Activity",
        "CallStack",
        "Cause",
        "Certainty",
        "Communicator",
        "CommunicatorSnapshot",
        "Finding",
        "FoundJob",
        "Frame",
        "Hidden",
        "Job",
        "JobProcess",
        "MqsError",
        "Operation",
        "Outcome",
        "Queue",
        "QueueSnapshot",
        "RankState",
        "Sample",
        "Snapshot",
        "Status",
        "Verdict",
        "Wait",
        "conclude",
        "find_jobs",
        "load_job",
        "read_cores",
        "read_job",
        "save_job",
        "take_snapshot",
    )
)
"""api.__all__. Any other name must not load api.py: ``from mqs_dll import abi`` asks here first."""


def __getattr__(name: str) -> Any:
    if name in _OF_API:
        from mqs_dll import api

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
