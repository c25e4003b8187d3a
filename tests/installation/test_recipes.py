"""packaging/: recipes for Spack and Apptainer, and a module file. Stubs stand for Spack, a parser for Apptainer."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from mqs_dll import __version__
from tests.support.packaging import skip_without
from tests.support.targets import ROOT

SPACK = ROOT / "packaging/spack/spack_repo/libmqs"
RECIPES = sorted(SPACK.glob("packages/*/package.py"))
PROJECT = (ROOT / "pyproject.toml").read_text()
DIRECTIVES = ("version", "depends_on", "license", "conflicts")
OURS = "py_libmqs"


class PythonPackage:
    """Stands for Spack's class of that name."""


@pytest.fixture
def recipe(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], tuple[type, dict[str, list[Any]]]]:
    """Return what runs a recipe: with stubs, not with Spack; gives its class, and by name each directive's words."""

    def run(name: str) -> tuple[type, dict[str, list[Any]]]:
        said: dict[str, list[Any]] = defaultdict(list)
        package = ModuleType("spack.package")
        for directive in DIRECTIVES:
            note = said[directive].append
            setattr(package, directive, lambda *words, note=note, **options: note((*words, options)))
        parents = ("spack", "spack_repo", "spack_repo.builtin", "spack_repo.builtin.build_systems")
        systems = ModuleType("spack_repo.builtin.build_systems.python")
        systems.PythonPackage = PythonPackage  # type: ignore[attr-defined]
        for module in (*map(ModuleType, parents), package, systems):
            monkeypatch.setitem(sys.modules, module.__name__, module)
        namespace: dict[str, Any] = {}
        exec(compile((SPACK / "packages" / name / "package.py").read_text(), name, "exec"), namespace)
        made = (each for each in namespace.values() if isinstance(each, type) and issubclass(each, PythonPackage))
        (found,) = (each for each in made if each is not PythonPackage)
        return found, said

    return run


@pytest.mark.parametrize("name", [path.parent.name for path in RECIPES])
def test_spack_s_recipes_say_what_spack_wants(name: str, recipe: Callable[[str], Any]) -> None:
    """By Spack's rules of names; where it comes from, and with a sum where that is no tag."""
    package, said = recipe(name)
    assert package.__name__ == "".join(part.title() for part in name.split("_"))
    assert package.__doc__
    assert package.homepage.startswith("https://")
    assert said["license"]
    for number, options in said["version"]:
        whole = re.fullmatch("[0-9a-f]{64}", options.get("sha256", "")) and number in package.pypi
        assert whole or options == {"tag": f"v{number}"}
    for dependency, options in said["depends_on"]:
        assert re.fullmatch(r"[a-z-]+(@[\d.]+:)?( \+\w+)?", dependency)
        assert {*([options["type"]] if isinstance(options.get("type"), str) else options.get("type", ()))} <= {
            "build", "link", "run",
        }  # fmt: skip


def test_spack_installs_what_pip_does(recipe: Callable[[str], Any]) -> None:
    """The version is this one's, and each package is as old as in pyproject.toml, or newer."""
    _, said = recipe(OURS)
    assert [number for number, _ in said["version"]] == [__version__]
    needed = {
        dependency.removeprefix("py-").removesuffix(":").replace("@", ">=")
        for dependency, options in said["depends_on"]
        if "run" in options["type"] and dependency.startswith("py-")
    }
    table = re.search(r"^dependencies = \[([^]]*)\]", PROJECT, re.MULTILINE)
    assert table
    assert needed == {each.lower() for each in re.findall(r'"(.*?)"', table[1])}
    to_build = {
        re.split("[@ ]", dependency)[0] for dependency, options in said["depends_on"] if "build" in options["type"]
    }
    names = re.findall(r'"([\w-]+)[>=]', re.findall(r"^requires = (.*)$", PROJECT, re.MULTILINE)[0])
    assert to_build - {"c", "python"} == {f"py-{each}" for each in names}
    (oldest,) = re.findall(r'^requires-python = ">=(.*)"$', PROJECT, re.MULTILINE)
    assert ("python@" + oldest + ": +shared") in {dependency for dependency, _ in said["depends_on"]}


def test_apptainer_s_definition_has_what_apptainer_wants() -> None:
    """A base, and sections that it knows; no image is built here."""
    text = (ROOT / "packaging/apptainer/libmqs.def").read_text()
    head, *sections = re.split(r"^%", text, flags=re.MULTILINE)
    keys = dict(line.split(": ", 1) for line in head.splitlines() if line and not line.startswith("#"))
    assert keys["Bootstrap"] == "docker"
    assert re.fullmatch(r"python:3\.\d+-slim-\w+", keys["From"])
    assert [section.partition("\n")[0] for section in sections] == ["files", "post", "runscript"]
    for section in sections[1:]:
        subprocess.run(["sh", "-nc", section.partition("\n")[2]], check=True)


def test_the_module_file_leads_to_the_command_alone(tmp_path: Path) -> None:
    """Environment Modules takes it; neither another Python nor its pip comes with it."""
    skip_without("modulecmd")
    prefix = tmp_path / "prefix"
    (prefix / "commands").mkdir(parents=True)
    (prefix / "commands/mqs").symlink_to(Path(sys.executable).with_name("mqs"))
    text = (ROOT / "packaging/modules/libmqs").read_text()
    assert f"libmqs/{__version__} in a folder" in text
    file = tmp_path / "modules/libmqs" / __version__
    file.parent.mkdir(parents=True)
    file.write_text(text.replace(f"set prefix /opt/libmqs/{__version__}\n", f"set prefix {prefix}\n"))
    load = f'export MODULEPATH={file.parents[1]}; eval "$(modulecmd sh load libmqs/{__version__})"'
    done = subprocess.run(
        ["sh", "-ec", f"{load}; mqs --version; command -v mqs"],
        capture_output=True, text=True, check=True, env={"PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    version, command = done.stdout.splitlines()
    assert version.startswith(f"mqs {__version__} ")
    assert command == f"{prefix}/commands/mqs"
