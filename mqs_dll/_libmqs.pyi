"""The module that cffi puts into libmqs.so (csrc/generated/): it exists inside that library alone."""

from typing import Any

ffi: Any
lib: Any
