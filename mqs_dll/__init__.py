"""libmqs: the message queues of a hung MPI program, through the MQS interface of 1999.

``mqs_dll`` is the logic of ``libmqs.so`` (session.py and below) and the debugger side of the command ``mqs``.
docs/architecture.md is the map.
"""

from __future__ import annotations

__version__ = "0.1.0"
