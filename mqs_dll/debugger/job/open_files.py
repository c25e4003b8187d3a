"""How many files this process may have open: each rank that is read takes its program and all of its libraries.

Apart from ``ranks``, since ``rights`` needs it too, and loads nothing that reads a job.
"""

from __future__ import annotations

import resource

_FILES_OF_A_RANK = 128
"""More than any MPI and its transports load; Open MPI 4.1 takes 51."""

_OWN_FILES = 64


def allow_open_files(ranks: int) -> None:
    """Raise the soft limit of open files, as far as the hard one goes, for so many ranks to be read at once.

    Shells mostly set 1024, which is enough for twenty ranks.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _OWN_FILES + ranks * _FILES_OF_A_RANK
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
