"""What csrc/helper.c starts: finds libmqs beside this file, and nothing else beside it, and serves.

Whatever Python runs it reads it whole: the syntax is that of any.
"""

import sys

OLDEST = (3, 10)


def start() -> None:
    """Serve the debugger; without a word, and at once, where this Python is too old."""
    if sys.version_info < OLDEST:
        return
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec
    from os.path import dirname, realpath

    spec = PathFinder.find_spec("mqs_dll", [dirname(dirname(dirname(realpath(__file__))))])  # noqa: PTH120
    if spec is None or spec.loader is None:
        return
    package = sys.modules["mqs_dll"] = module_from_spec(spec)
    spec.loader.exec_module(package)
    from mqs_dll.library.helper import serve

    serve(int(sys.argv[1]))


if __name__ == "__main__":
    start()
