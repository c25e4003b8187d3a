"""Adds to pyproject.toml what it can't say: the headers' place in the package, and how the C libraries are built."""

import sys
from pathlib import Path

from setuptools import find_packages, setup

sys.path.insert(0, str(Path(__file__).resolve().parent))  # build.py, which may be hidden by the PyPA tool `build`

from build import BuildLibraries, TagWheel, extensions

setup(
    packages=[*find_packages(include=["mqs_dll", "mqs_dll.*"]), "mqs_dll.include"],
    package_dir={"mqs_dll.include": "include"},
    ext_modules=extensions(),
    cmdclass={"build_ext": BuildLibraries, "bdist_wheel": TagWheel},
)
