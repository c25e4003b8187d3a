"""`pip install .`: what is in the wheel, that it works unpacked, and what is said where it cannot be built."""

from __future__ import annotations

import os
import platform
import pty
import re
import select
import shutil
import subprocess
import sys
import sysconfig
import time
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from mqs_dll import __version__
from mqs_dll.contract.errors import DllError
from tests.support.embedding import ROOT, copy_of_package, minor_of, misuse, other_pythons
from tests.support.packaging import copy_of_sources, done_well, load_build, skip_without
from tests.support.targets import DEADLINE

pytestmark = pytest.mark.slow

VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
COMMANDS = ("job", "run", "show", "watch", "diff", "doctor", "calibrate", "demo", "gdb-init", "dll-path", "env")
GENERATED = "csrc/generated/_libmqs.c"
OLDEST = 10
"""The minor version of the oldest Python that libmqs runs on."""


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of what pip needs of the checkout, with nothing that was built."""
    setuptools = pytest.importorskip("setuptools", reason="setuptools is not installed")
    if int(setuptools.__version__.partition(".")[0]) < 77:
        pytest.skip("setuptools 77, which pyproject.toml asks for, is not installed")
    return copy_of_sources(tmp_path_factory.mktemp("sources") / "libmqs")


def pip_wheel(
    sources: Path, target: Path, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Build a wheel as `pip install .` does, with the setuptools that is here."""
    command = [sys.executable, "-Im", "pip", "wheel", "--no-deps", "--no-build-isolation", "--no-index"]
    return subprocess.run(
        [*command, "--wheel-dir", str(target), str(sources)],
        capture_output=True,
        text=True,
        env={**os.environ, **(environment or {})},
        check=False,
    )


@pytest.fixture(scope="module")
def wheel(sources: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the wheel of this checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    done = pip_wheel(sources, folder)
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = folder.glob("*.whl")
    return built


def test_the_wheel_is_for_this_python_and_platform(wheel: Path) -> None:
    """The wheel has the version of the package and the tags of the Python and the machine that built it."""
    tag = f"cp{sys.version_info.major}{sys.version_info.minor}"
    machine = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    assert wheel.name == f"libmqs-{__version__}-{tag}-{tag}-{machine}.whl"


def test_the_wheel_has_all_of_the_package(wheel: Path) -> None:
    """Every module, profile, type stub and C program is in the wheel; the libraries and the header too."""
    names = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("mqs_dll/")}
    patterns = ("*.py", "*.pyi", "*.json", "*.c", "*.html", "*.css", "*.js", "*.txt", "py.typed")
    package = {str(path.relative_to(ROOT)) for pattern in patterns for path in (ROOT / "mqs_dll").rglob(pattern)}
    assert names == package | {
        "mqs_dll/libmqs.so",
        "mqs_dll/libmqs_python.so",
        "mqs_dll/libmqs_dll_name.so",
        "mqs_dll/debugger/_declared.py",
        "mqs_dll/include/mqs_interface.h",
    }


@pytest.fixture(scope="module")
def shared(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the wheel's share/, as pip puts it beside bin/."""
    folder = tmp_path_factory.mktemp("data")
    zipfile.ZipFile(wheel).extractall(folder)
    return folder / f"libmqs-{__version__}.data/data/share"


def test_the_manual_has_every_command(shared: Path) -> None:
    """`man mqs` has each with its options, and is well-formed as far as man can tell."""
    page = (shared / "man/man1/mqs.1").read_text().replace("\\-", "-")
    assert [name for name in COMMANDS if f"mqs {name}" not in page] == []
    assert "--suspect-after" in page
    skip_without("man")
    command = ["man", "--warnings", "--local-file", str(shared / "man/man1/mqs.1")]
    shown = subprocess.run(command, capture_output=True, text=True, check=True)
    assert (shown.stderr, "who waits for whom" in shown.stdout) == ("", True)


completions = pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("mqs wa", "watch"),
        ("mqs job --spee", "--speedscope"),
        ("mqs job --html /etc/os-rel", "/etc/os-release"),
        ("mqs run --on-stuck wa", "wait"),
    ],
)
"""Commands, options, files and choices: what stands there when Tab is pressed, and the one thing that goes on."""


@completions
def test_bash_completes(words: str, offered: str, shared: Path) -> None:
    """As it is asked for after Tab."""
    place, typed = shared / "bash-completion/completions/mqs", words.split()
    script = f"""
        source {place}
        COMP_WORDS=({words}) COMP_CWORD={len(typed) - 1} COMP_LINE="{words}" COMP_POINT={len(words)}
        _shtab_mqs mqs "{typed[-1]}" "{typed[-2]}"
        printf '%s\n' "${{COMPREPLY[@]}}"
    """
    assert done_well(["bash", "-c", script]) == f"{offered}\n"


@completions
def test_fish_completes(words: str, offered: str, shared: Path) -> None:
    """With a sentence on each."""
    skip_without("fish")
    place = shared / "fish/vendor_completions.d/mqs.fish"
    printed = done_well(["fish", "--no-config", "-c", f"source {place}; complete -C '{words}'"])
    assert printed.splitlines()[0].partition("\t")[0] == offered


@completions
def test_zsh_completes(words: str, offered: str, shared: Path) -> None:
    """Typed into one that runs on a terminal."""
    skip_without("zsh")
    environment = {**os.environ, "TERM": "dumb", "PROMPT": ""}
    ours, theirs = pty.openpty()

    def type_until(typed: str, shown: str) -> None:
        os.write(ours, typed.encode())
        seen, end = b"", time.monotonic() + DEADLINE
        while shown.encode() not in seen:
            assert time.monotonic() < end, seen
            if select.select([ours], [], [], 0.1)[0]:
                seen += os.read(ours, 4096)

    with subprocess.Popen(
        ["zsh", "-f", "-i"], stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True, env=environment
    ) as shell:
        folder = shared / "zsh/site-functions"
        try:
            type_until(f"fpath=({folder} $fpath); autoload -Uz compinit; compinit -u -D; echo re''ady\n", "ready\r\n")
            type_until(f"{words}\t", offered)
        finally:
            shell.kill()
            os.close(ours)
            os.close(theirs)


def test_the_library_works_where_the_wheel_is_unpacked(wheel: Path, tmp_path: Path) -> None:
    """Installed, libmqs.so starts from a plain C program with no environment, and speaks for its package."""
    zipfile.ZipFile(wheel).extractall(tmp_path)
    text = misuse(tmp_path / "mqs_dll/libmqs.so", ["version_string"])[0]["text"]
    assert text == f"libmqs {__version__} (Python {platform.python_version()})"


def test_the_debugger_side_works_where_the_wheel_is_unpacked(wheel: Path, tmp_path: Path) -> None:
    """Installed, the debugger side has its declarations from the header in the package, and drives libmqs.so."""
    zipfile.ZipFile(wheel).extractall(tmp_path)
    script = (
        "from mqs_dll.debugger import library_path; from mqs_dll.debugger.dll import DynamicLibrary;"
        "print(library_path.header(), DynamicLibrary(library_path.library()).version_string())"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout.startswith(f"{tmp_path}/mqs_dll/include/mqs_interface.h libmqs {__version__}"), done.stderr


def test_a_checkout_that_is_not_built_says_so(sources: Path) -> None:
    """Where nothing was built, the debugger side says what is missing, and what to run."""
    script = "from mqs_dll.debugger.dll import DynamicLibrary"
    done = subprocess.run([sys.executable, "-c", script], cwd=sources, capture_output=True, text=True, check=False)
    assert re.search(r"DllError: debugger/_declared.py is not in .+ or run `python build.py`", done.stderr)


def test_the_library_finds_its_libpython(sources: Path, tmp_path: Path) -> None:
    """libmqs_python.so itself knows where its libpython lies, where Python's own link flags don't say it."""
    assert pip_wheel(sources, tmp_path, {"LDSHARED": "gcc -shared"}).returncode == 0
    zipfile.ZipFile(next(tmp_path.glob("*.whl"))).extractall(tmp_path)
    results = misuse(tmp_path / "mqs_dll/libmqs.so", ["version_string"], {"MQS_PYTHON": "embedded"})
    assert results[0]["text"] == f"libmqs {__version__} (Python {platform.python_version()})"


@pytest.fixture(scope="module")
def wheel_for_all(sources: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the wheel that tools/wheel makes, as it is before auditwheel names the C library that it needs."""
    folder = tmp_path_factory.mktemp("wheel-for-all")
    done = pip_wheel(sources, folder, {"MQS_WHEEL": "any"})
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = folder.glob("*.whl")
    return built


def test_one_wheel_serves_every_python(wheel_for_all: Path, tmp_path: Path) -> None:
    """Its libmqs.so has no Python in it, and works by the one of the prefix that it is installed under, whichever."""
    machine = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    assert wheel_for_all.name == f"libmqs-{__version__}-py3-none-{machine}.whl"
    pythons = [sys.executable, *(each for each in other_pythons() if minor_of(each) >= OLDEST)]
    for python in pythons:
        prefix = tmp_path / f"3.{minor_of(python)}"
        packages = prefix / "lib/site-packages"
        zipfile.ZipFile(wheel_for_all).extractall(packages)
        (prefix / "bin").mkdir()
        (prefix / "bin/python3").symlink_to(Path(python).resolve())
        assert {each.name for each in (packages / "mqs_dll").glob("*.so")} == {"libmqs.so", "libmqs_dll_name.so"}
        (told,) = misuse(packages / "mqs_dll/libmqs.so", ["version_string"])
        version = rf"\(Python 3\.{minor_of(python)}\.\d+\S*, in a process of its own\)"
        assert re.fullmatch(rf"libmqs {re.escape(__version__)} {version}", told["text"])


def test_the_wheel_for_all_is_a_manylinux_one(wheel_for_all: Path) -> None:
    """auditwheel finds nothing in it but what every Linux with a C library as new has."""
    pytest.importorskip("auditwheel", reason="auditwheel is not installed: pip install -e '.[dev]' brings it")
    command = [sys.executable, "-m", "auditwheel", "show", str(wheel_for_all)]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert re.search(r'following platform\s+tag:\s+"manylinux_2_\d+_\w+"', shown), shown


def test_an_earlier_build_is_not_used_again(sources: Path, wheel: Path, tmp_path: Path) -> None:
    """What another Python of the same version left in build/ is compiled again."""
    assert wheel.is_file()
    log = tmp_path / "log"
    compiler = tmp_path / "compiler"
    compiler.write_text(f'#!/bin/sh\necho "$@" >> {log}\nexec gcc "$@"\n')
    compiler.chmod(0o755)
    assert pip_wheel(sources, tmp_path, {"CC": str(compiler)}).returncode == 0
    assert "-c csrc/python_start.c" in log.read_text()


def test_a_build_without_a_compiler_names_the_cure(sources: Path, tmp_path: Path) -> None:
    """pip fails, and its output has one sentence that says what to install; no traceback stands around it."""
    done = pip_wheel(sources, tmp_path, {"CC": "no-such-compiler"})
    output = done.stdout + done.stderr
    assert done.returncode != 0
    assert "libmqs: there is no C compiler 'no-such-compiler': install gcc" in output
    assert "Traceback" not in output


def test_a_compiler_that_fails_names_the_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    """A compiler that can't compile at all (no libc headers) is one sentence with its first complaint."""
    monkeypatch.setenv("CC", "gcc -nostdinc")
    with pytest.raises(SystemExit, match=r"can't compile a file that includes Python.h \(.+\): install what it lacks"):
        load_build().check_compiler("Python.h")


def test_missing_headers_name_the_cure(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without Python.h one sentence names the Debian package."""
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path))
    with pytest.raises(
        SystemExit, match=rf"headers of Python {VERSION} are not in .+ apt install libpython{VERSION}-dev"
    ):
        load_build().check_compiler("Python.h")


def test_a_python_without_a_shared_library_needs_no_headers_either(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Without a libpython to link to libmqs.so is built alone, and works by its helper process."""
    build = load_build()
    monkeypatch.setattr(build, "shared_libpython", lambda: None)
    command = build.BuildLibraries(build.Distribution({"name": "libmqs", "ext_modules": build.extensions()}))
    command.build_lib, command.build_temp = str(tmp_path / "lib"), str(tmp_path / "temp")
    monkeypatch.chdir(ROOT)
    command.ensure_finalized()
    command.run()
    built = {path.name for path in (tmp_path / "lib/mqs_dll").iterdir()}
    assert built == {"libmqs.so", "libmqs_dll_name.so", "debugger"}
    package = copy_of_package(tmp_path)
    package.with_name("libmqs_python.so").unlink()
    text = misuse(package, ["version_string"])[0]["text"]
    assert text == f"libmqs {__version__} (Python {platform.python_version()}, in a process of its own)"


def test_a_static_python_with_a_shared_library_beside_it_will_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Debian's python3 is static; the libpython of its own package, under the multiarch directory, is linked to."""
    library = tmp_path / "some-linux-gnu" / f"libpython{VERSION}{sys.abiflags}.so.1.0"
    library.parent.mkdir()
    library.touch()
    config = {"LIBDIR": str(tmp_path), "MULTIARCH": "some-linux-gnu", "Py_ENABLE_SHARED": 0}
    monkeypatch.setattr(sysconfig, "get_config_vars", lambda: config)
    assert load_build().shared_libpython() == library


def test_the_generated_file_is_up_to_date() -> None:
    """csrc/generated/ is what the pinned cffi makes of the headers."""
    cffi = pytest.importorskip("cffi")
    pinned = re.search(r'"cffi==([\d.]+)"', (ROOT / "pyproject.toml").read_text())
    assert pinned is not None
    if cffi.__version__ != pinned[1]:
        pytest.skip(f"cffi {pinned[1]}, which the file is generated with, is not installed")
    assert load_build().generate() == (ROOT / GENERATED).read_text()


def test_a_generated_file_out_of_date_is_found(sources: Path, tmp_path: Path) -> None:
    """`build.py --check` fails, and says what to run, when a header has changed since."""
    pytest.importorskip("cffi")
    changed = tmp_path / "libmqs"
    shutil.copytree(sources, changed)
    glue = changed / "csrc/glue.h"
    glue.write_text(glue.read_text().replace("int mqspy_destroy_image(", "int mqspy_forget_image("))
    done = subprocess.run(
        [sys.executable, str(changed / "build.py"), "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert "run `python build.py --generate`" in done.stderr


def test_a_missing_library_names_the_cure(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where libmqs.so was not built, the paths of library_path are errors that say what to run."""
    from mqs_dll.debugger import library_path

    monkeypatch.setattr(library_path, "PACKAGE", tmp_path / "mqs_dll")
    for path in (library_path.library, library_path.dll_name_library, library_path.header):
        with pytest.raises(DllError, match="install libmqs again"):
            path()
