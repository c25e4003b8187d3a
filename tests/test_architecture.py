"""Who may import whom: docs/architecture.md's table, held by reading the imports."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "mqs_dll"
MODULES = {
    ".".join(("mqs_dll", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__"): path
    for path in PACKAGE.rglob("*.py")
}

LIBRARY = ("memory", "layout", "profiles", "view", "fabric", "mpi", "session", "_glue")
DEBUGGER = ("debugger", "report", "verdict")
COMPOSING = ("api", "cli", "calibrate", "commands")
"""What knows both sides."""
LAYERS = {
    "abi": (),
    "errors": ("abi",),
    "interface": ("abi",),
    "escape": (),
    "phrases": (),
    "names": ("abi",),
    "layout": ("abi", "errors", "interface"),
    "memory": ("errors", "interface"),
    "profiles": ("errors", "layout"),
    "view": ("errors", "layout", "memory"),
    "fabric": ("errors", "interface", "layout", "memory", "view", "fabric"),
    "mpi": ("fabric", "abi", "errors", "interface", "layout", "memory", "names", "phrases", "profiles", "view", "mpi"),
    "session": ("", "abi", "errors", "interface", "memory", "mpi"),
}
"""What each module of the library side, or below both sides, may import of libmqs; "" is the package itself."""


def _imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module is not None and node.level == 0:
            found.add(node.module)
            found.update(f"{node.module}.{name.name}" for name in node.names)
        elif isinstance(node, ast.Import):
            found.update(name.name for name in node.names)
    return found


def _room(module: str) -> str:
    return module.partition(".")[2].partition(".")[0]


def _own_imports(module: str) -> set[str]:
    """Return the modules of libmqs that a module imports."""
    return {name for name in _imports(MODULES[module]) if name in MODULES and name != module}


@pytest.mark.parametrize("module", sorted(module for module in MODULES if _room(module) in LAYERS))
def test_the_library_side_imports_downwards_only(module: str) -> None:
    """Each layer knows the ones below it; the MPIs' walkers never see callbacks or JSON."""
    allowed = LAYERS[_room(module)]
    imported = {name for name in _own_imports(module) if name != "mqs_dll" or "" in allowed}
    assert {_room(name) for name in imported} <= {*allowed}


@pytest.mark.parametrize("module", sorted(module for module in MODULES if _room(module) in DEBUGGER))
def test_the_debugger_side_never_imports_the_library_side(module: str) -> None:
    """The two sides meet below the line: in phrases, names, interface, errors and abi."""
    assert not {name for name in _own_imports(module) if _room(name) in LIBRARY}


@pytest.mark.parametrize("module", sorted(module for module in MODULES if _room(module) in {*LIBRARY, *LAYERS}))
def test_what_runs_inside_libmqs_imports_the_standard_library_and_cffi_alone(module: str) -> None:
    """The isolated interpreter finds nothing else."""
    outside = {name.partition(".")[0] for name in _imports(MODULES[module])} - {"mqs_dll"}
    assert outside <= {*sys.stdlib_module_names, "_cffi_backend"}
    assert not {name for name in _own_imports(module) if _room(name) in DEBUGGER}


def test_nobody_imports_what_composes_both_sides() -> None:
    """The package offers the Python interface when it is asked, and only its entry point knows cli."""
    importers = {module for module in MODULES if {_room(name) for name in _own_imports(module)}.intersection(COMPOSING)}
    assert {_room(module) for module in importers} <= {"", "__main__", *COMPOSING}


def test_only_the_glue_knows_the_embedded_ffi() -> None:
    """One module touches C pointers on the library side."""
    knowing = {module for module, path in MODULES.items() if "mqs_dll._libmqs" in _imports(path)}
    assert knowing == {"mqs_dll._glue"}


def _public_definitions() -> list[tuple[str, str, str | None]]:
    """Return (module, name, docstring) of each public function, class and method of the package."""
    found = []
    for module, path in MODULES.items():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        found.append((module, "module", ast.get_docstring(tree)))
        bodies: list[ast.Module | ast.ClassDef] = [tree]
        while bodies:
            for node in bodies.pop().body:
                if isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_"):
                    found.append((module, node.name, ast.get_docstring(node)))
                if isinstance(node, ast.ClassDef):
                    bodies.append(node)
    return found


def test_every_public_name_says_what_it_is_in_sentences() -> None:
    """Docstrings exist and end in a full stop (or a colon before an example), wherever a reader may look."""
    bare = [
        f"{module}.{name}"
        for module, name, text in _public_definitions()
        if text is None or not text.partition("\n")[0].rstrip().endswith((".", ":", "?"))
    ]
    assert bare == []


def test_each_folder_says_what_its_rooms_are() -> None:
    """The docstring of its ``__init__`` names each module and folder in it once (``name``: what it is), no other."""
    wrong = {}
    for init in (
        path for path in PACKAGE.rglob("__init__.py") if path.parent != PACKAGE
    ):  # docs/architecture.md has those
        beside = {path.stem for path in init.parent.glob("*.py")} | {
            path.parent.name for path in init.parent.glob("*/__init__.py")
        }
        text = ast.get_docstring(ast.parse(init.read_text(encoding="utf-8"))) or ""
        named = re.findall(r"``(\w+)``:", text)
        if sorted(named) != sorted(beside - {"__init__"}):
            folder = str(init.parent.relative_to(PACKAGE))
            missing, surplus = beside - {"__init__", *named}, set(named) - beside
            wrong[folder] = f"missing {sorted(missing)}, surplus {sorted(surplus)}, twice {_twice(named)}"
    assert wrong == {}


def _twice(names: list[str]) -> list[str]:
    return sorted({name for name in names if names.count(name) > 1})
