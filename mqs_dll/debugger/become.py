"""Becoming another user, for good (rights.py says when, and why).

Sources: setresuid(2), prctl(2) on PR_SET_NO_NEW_PRIVS, keyctl(2), capabilities(7), "Effect of user ID changes on
capabilities".
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct

from mqs_dll.contract.errors import NotPermittedError
from mqs_dll.debugger.proc import Owner, user_name

_PR_SET_NO_NEW_PRIVS = 38
_CAPABILITY_VERSION = 0x20080522
_KEYCTL = {"x86_64": 250, "aarch64": 219}
_JOIN_SESSION_KEYRING = 1


def become(owner: Owner) -> None:
    """Change all IDs of all threads of this process, and give up all capabilities.

    Raises:
        NotPermittedError: as give_up_root.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall(_KEYCTL.get(platform.machine(), -1), _JOIN_SESSION_KEYRING, None)  # one without root's keys
    os.chdir("/")
    for name in [name for name in os.environ if name == "HOME" or name.startswith("XDG_")]:
        os.environ[name] = ""  # root's folders, closed from now on; the user's own are not to be touched
    try:
        os.setgroups(owner.groups)
        os.setresgid(owner.group, owner.group, owner.group)
        if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "no_new_privs is unknown")
        os.setresuid(owner.user, owner.user, owner.user)
    except OSError as error:
        raise NotPermittedError(f"root can't become user {user_name(owner.user)} here: {error.strerror}") from error
    header, nothing = struct.pack("<Ii", _CAPABILITY_VERSION, 0), bytes(24)
    if libc.capset(header, nothing) != 0 or os.getresuid() != (owner.user,) * 3:
        os._exit(os.EX_NOPERM)  # half of root is too much
