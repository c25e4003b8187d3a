"""Adds to pyproject.toml what it can't say: the place of the headers, the C libraries, the manual page."""

import sys
from pathlib import Path

from setuptools import find_packages, setup

sys.path.insert(0, str(Path(__file__).resolve().parent))  # build.py, which may be hidden by the PyPA tool `build`

from build import BuildLibraries, TagWheel, extensions, shell_files

setup(
    packages=[*find_packages(include=["mqs_dll", "mqs_dll.*"]), "mqs_dll.include"],
    package_dir={"mqs_dll.include": "include"},
    ext_modules=extensions(),
    data_files=shell_files(),
    cmdclass={"build_ext": BuildLibraries, "bdist_wheel": TagWheel},
)
