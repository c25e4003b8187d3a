"""Who may import whom: docs/architecture.md's table, held by reading the imports."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "mqs_dll"
LIBRARY = "mqs_dll.library."
MODULES = {
    ".".join(("mqs_dll", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__"): path
    for path in PACKAGE.rglob("*.py")
    if not path.with_suffix(".pyi").exists()  # cffi writes those that have a stub
}

MAY_IMPORT = {
    "contract": (),
    "library": ("contract",),
    "job": ("contract",),
    "debugger": ("contract", "job"),
    "verdict": ("contract", "job"),
    "report": ("contract", "job", "verdict"),
    "calibrate": ("contract", "library", "debugger", "job"),
    "commands": ("contract", "library", "debugger", "job", "verdict", "report", "calibrate"),
    "gdb": ("contract", "library", "debugger", "job", "report", "commands"),
    "": ("commands",),
    "__main__": ("commands",),
}
"""What each folder may import of libmqs beside itself; "" is the package, which anybody may ask for its version."""
WITHIN_LIBRARY = {
    "bounds": (),
    "memory": ("bounds",),
    "layouts": ("memory",),
    "fabric": ("layouts", "memory"),
    "mpi": ("bounds", "fabric", "layouts", "memory"),
    "session": ("memory", "mpi"),
    "service": ("session",),
    "_glue": ("service",),
    "helper": ("service",),
    "helper_start": ("helper",),
}
"""The same of the modules and folders of mqs_dll/library."""


def _imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module is not None and node.level == 0:
            found.add(node.module)
            found.update(f"{node.module}.{name.name}" for name in node.names)
        elif isinstance(node, ast.Import):
            found.update(name.name for name in node.names)
    return found


def _folder(module: str) -> str:
    return module.partition(".")[2].partition(".")[0]


def _own_imports(module: str) -> set[str]:
    """Return the modules of libmqs that a module imports."""
    return {name for name in _imports(MODULES[module]) if name in MODULES and name != module}


def test_every_folder_imports_downwards_only() -> None:
    """Each folder knows the ones below it alone: the two sides never meet, and a verdict knows no report."""
    assert {_folder(module) for module in MODULES} == MAY_IMPORT.keys()
    within = {name.removeprefix(LIBRARY): path for name, path in MODULES.items() if name.startswith(LIBRARY)}
    assert {name.partition(".")[0] for name in within} == WITHIN_LIBRARY.keys()
    assert _upwards("mqs_dll.", MAY_IMPORT) + _upwards(LIBRARY, WITHIN_LIBRARY) == []


def _upwards(prefix: str, may_import: dict[str, tuple[str, ...]]) -> list[str]:
    """Return what imports beyond a table of what lies behind a prefix."""

    def part(module: str) -> str:
        return module.removeprefix(prefix).partition(".")[0] if module != "mqs_dll" else ""

    return [
        f"{module} imports {name}"
        for module in MODULES
        if module.startswith(prefix) or module == prefix[:-1]
        for name in sorted(_own_imports(module) - {"mqs_dll"})
        if name.startswith(prefix) and part(name) not in (part(module), *may_import[part(module)])
    ]


def test_the_map_names_every_folder_and_none_that_is_gone() -> None:
    """The table of docs/architecture.md has each module and folder of the package, by paths that are there."""
    root = PACKAGE.parent
    named: set[Path] = set()
    gone = []
    for cell in re.findall(r"^\| (`.+?) \|", (root / "docs/architecture.md").read_text(), re.MULTILINE):
        paths = [Path(name) for name in re.findall(r"`([\w./*]+/?)`", cell) if "/" in name or "." in name]
        for path in paths:
            places = [place / path for place in (root, PACKAGE, root / paths[0].parent)]
            found = [match for place in places for match in place.parent.glob(place.name)]
            named.update(found)
            gone += [] if found else [str(path)]
    folders = {path for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    within = {each for path in named for each in (path, *path.parents)}
    assert gone == []
    assert {path.name for path in folders - within} == {"__init__.py", "__main__.py"}


def test_what_runs_inside_libmqs_imports_the_standard_library_and_cffi_alone() -> None:
    """The isolated interpreter finds nothing else."""
    known = {*sys.stdlib_module_names, "_cffi_backend", "mqs_dll"}
    outside = [
        f"{module} imports {name}"
        for module, path in MODULES.items()
        if _folder(module) in {"contract", "library"}
        for name in sorted(_imports(path))
        if name.partition(".")[0] not in known
    ]
    assert outside == []


def test_only_the_glue_knows_the_embedded_ffi() -> None:
    """One module touches C pointers on the library side."""
    knowing = {module for module, path in MODULES.items() if "mqs_dll._libmqs" in _imports(path)}
    assert knowing == {"mqs_dll.library._glue"}


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


def test_each_folder_says_what_its_modules_are() -> None:
    """The docstring of its ``__init__`` names each module and folder in it once (``name``: what it is), no other."""
    assert {path.parent for path in PACKAGE.rglob("*.py")} == {path.parent for path in PACKAGE.rglob("__init__.py")}
    wrong = {}
    for init in (
        path for path in PACKAGE.rglob("__init__.py") if path.parent != PACKAGE
    ):  # docs/architecture.md has those
        beside = {path.stem for path in init.parent.glob("*.py*")} | {
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


def test_each_test_that_the_page_on_security_names_is_there() -> None:
    """What docs/security.md promises is shown by tests, by their names."""
    root = PACKAGE.parent
    there = {
        name
        for path in (root / "tests").rglob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", path.read_text(), re.MULTILINE)
    }
    named = re.findall(r"`(test_\w+)`", (root / "docs/security.md").read_text())
    assert len(named) > 30
    assert sorted({*named} - there) == []
