"""What cffi makes of include/mqs_interface.h for a debugger, when libmqs is built (build.py)."""

from typing import Any

ffi: Any
