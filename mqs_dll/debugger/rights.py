"""Giving up root: another user's process or file is read with that user's rights, and no others.

drgn, elfutils and pystack parse ELF and DWARF that the job's user wrote, in C. A bug there must gain no more than that
user has already. So a process that has root's rights and is to read another user's program becomes that user first, for
good: all IDs and groups are that user's, no program that it runs gets more, and nothing is left open that root had but
its own standard streams. What takes root's rights is done before, and parses nothing: the memory of that user's
processes is opened, and what will stop them is started (holder.py), which believes our orders as little as that user.
What parses in a process of its own (apart.py) is started too, and becomes that user as we do. live.py, core/ and
library_file.py refuse whoever comes to them as root (proc.check_owner).

The user can't trace such a process either: the kernel protects what has changed its IDs and run no program since.
Sources: setresuid(2), prctl(2) on PR_SET_DUMPABLE and PR_SET_NO_NEW_PRIVS, keyctl(2), capabilities(7), "Effect of user
ID changes on capabilities".
"""

from __future__ import annotations

import os
import pwd
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path

from mqs_dll.contract.errors import OtherNamespaceError, StopError
from mqs_dll.debugger import apart, live
from mqs_dll.debugger.access import is_stranger, shown
from mqs_dll.debugger.become import become
from mqs_dll.debugger.job.open_files import allow_open_files
from mqs_dll.debugger.proc import Owner, is_wholly_of, numbers_in, owner_of, user_name
from mqs_dll.debugger.stopping import holder
from mqs_dll.job.files import is_open, is_trusted

_MAX_OPENED = 1 << 14
"""Processes of one user on one machine: more ranks than processors have threads."""


def must_give_up(owner: Owner) -> bool:
    """Return whether what belongs to somebody is to be read with that user's rights instead of ours."""
    return os.geteuid() == 0 and owner.user != 0


def become_owner_of(what: int | Path | str, prepare: Callable[[], None]) -> None:
    """Become the owner of a process or a file, where we are root and somebody else owns it.

    Args:
        what: the PID, or the path.
        prepare: as give_up_root has it.

    Raises:
        MqsError: there is no such process, or it can't be done.
    """
    with suppress(OSError):  # whoever opens the file says what is the matter with it
        owner = owner_of(what) if isinstance(what, int) else owner_of_file(what)
        if must_give_up(owner):
            give_up_root(owner, prepare)


def owner_of_file(path: Path | str) -> Owner:
    """Return whose a file is, with the groups that this machine gives that user.

    Raises:
        OSError: there is no such file.
    """
    found = os.stat(path)  # noqa: PTH116
    try:
        entry = pwd.getpwuid(found.st_uid)
        return Owner(found.st_uid, entry.pw_gid, tuple(os.getgrouplist(entry.pw_name, entry.pw_gid)))
    except (KeyError, OSError):
        return Owner(found.st_uid, found.st_gid)


def distrusted(path: Path | str) -> str:
    """Return why what lies at a path isn't run; empty where only root and we could have put it there.

    Each folder on the way counts: whoever may write to one may put another file into the way.
    """
    real = Path(path).resolve()
    for each in (real, *real.parents):
        try:
            found = each.stat()
        except OSError as error:
            return f"{each} can't be read: {error.strerror}"
        if not is_trusted(found):
            return f"{each} belongs to user {user_name(found.st_uid)}"
        is_sticky = stat.S_ISDIR(found.st_mode) and found.st_mode & stat.S_ISVTX  # there, owners alone replace files
        if is_open(found) and not is_sticky:
            return f"{each} may be written by others"
    return ""


def give_up_root(owner: Owner, prepare: Callable[[], None]) -> None:
    """Become another user, for good.

    Args:
        owner: whom to become.
        prepare: reads what may lie where only root can read it.

    Raises:
        NotPermittedError: it can't be done, in a container that knows other users. Then nothing may be read.
    """
    if is_stranger(owner.user, shown("self")):
        raise OtherNamespaceError("it belongs to a user whom this container doesn't know: it is outside of it")
    prepare()
    apart.start_all_beforehand(owner)
    with suppress(StopError):
        holder.start_beforehand(owner)
    pids = list(_processes_of(owner))
    allow_open_files(len(pids))
    for pid in pids:
        live.open_beforehand(pid, partial(is_wholly_of, pid, owner))
    become(owner)


def _processes_of(owner: Owner) -> Iterator[int]:
    """Yield the processes that are a user's own."""
    found = (pid for pid in numbers_in("/proc") if is_wholly_of(pid, owner))
    return islice(found, _MAX_OPENED)
