"""MPICH 3.4 to 5.0 and its derivatives.

Rooms by what they know: handles, pools, process, release (what lies where), identity (whether it is up and which
layouts hold), communicators, groups, files, contexts, tags, datatypes, requests, and one folder for each device.
"""

from __future__ import annotations

from mqs_dll.mpi.mpich.adapter import Mpich

__all__ = ["Mpich"]
