"""``python -m mqs_dll`` is the command ``mqs``."""

from __future__ import annotations

import sys

from mqs_dll.cli import main

if __name__ == "__main__":
    sys.exit(main())
