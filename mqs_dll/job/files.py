"""Files that a user asks for: written whole or not at all, and nowhere that another user could have led them.

And who could have put there what lies in a file: us and root alone, or others.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
import sys
from contextlib import suppress
from pathlib import Path

_STANDARD_OUTPUT = ("-", "/dev/stdout")
_MAX_LINKS = 40
"""As the kernel follows them."""


def is_trusted(found: os.stat_result) -> bool:
    """Return whether a file or a folder belongs to us, or to root."""
    return found.st_uid in (0, os.geteuid())


def is_open(found: os.stat_result) -> bool:
    """Return whether its group, or everybody, may write to a file or a folder."""
    return bool(found.st_mode & (stat.S_IWGRP | stat.S_IWOTH))


def write_out(path: str, content: bytes) -> None:
    """Write what a user asked for to a file, or to the standard output: "-", "/dev/stdout".

    Raises:
        OSError: as write_whole has it.
    """
    if path not in _STANDARD_OUTPUT:
        write_whole(Path(path), content)
        return
    sys.stdout.flush()
    if hasattr(sys.stdout, "buffer"):
        sys.stdout.buffer.write(content)
        sys.stdout.flush()
    else:  # gdb's
        sys.stdout.write(content.decode("utf-8"))


def write_whole(path: Path, content: bytes) -> None:
    """Write a file in place of what was there, which stays until the new one is complete.

    In a folder that others may write into, a link could lead anywhere: only links of this user's and root's are
    followed, and none that comes after that was checked.

    Raises:
        OSError: it can't be written, is another user's link, or a device or anything else but a regular file.
    """
    try:
        target = _followed(path)
        with suppress(FileNotFoundError):
            if not stat.S_ISREG(target.lstat().st_mode):
                raise OSError(errno.EINVAL, "it is no regular file, and isn't written over")
        part = target.with_name(f".mqs-{secrets.token_hex(8)}.part")
    except ValueError as error:  # a name with a NUL, or none
        raise OSError(errno.EINVAL, str(error)) from None
    try:
        with part.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def _followed(path: Path) -> Path:
    """Return where the links of a path lead, as far as they are this user's or root's."""
    for _ in range(_MAX_LINKS):
        if not path.is_symlink():
            return path
        if not is_trusted(path.lstat()):
            raise OSError(errno.ELOOP, "it is another user's link, and isn't followed")
        path = path.parent / path.readlink()
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
