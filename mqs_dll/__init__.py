"""libmqs: the message queues of a hung MPI program, through the MQS interface of 1999.

``mqs_dll`` is the logic of ``libmqs.so`` (library/) and the debugger side of the command ``mqs``.
docs/architecture.md is the map. The Python interface is commands/api.py: import its names from here. They are looked
up when they are used, because ``libmqs.so`` imports this package inside a debugger, and needs none of them there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mqs_dll.commands.api import *  # noqa: F403

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Return what api.py offers. ``from mqs_dll import abi`` asks here first: a module's name must not load api.py."""
    from importlib.util import find_spec

    if not name.startswith("_") and find_spec(f"{__name__}.{name}") is None:
        from mqs_dll.commands import api

        if name in api.__all__:
            return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
