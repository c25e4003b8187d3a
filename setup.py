"""Adds to pyproject.toml what it can't say: how the C libraries are built (see build.py)."""

import sys
from pathlib import Path

from setuptools import setup

sys.path.insert(0, str(Path(__file__).resolve().parent))  # build.py, which may be hidden by the PyPA tool `build`

from build import BuildLibraries, TagWheel, extensions

setup(ext_modules=extensions(), cmdclass={"build_ext": BuildLibraries, "bdist_wheel": TagWheel})
