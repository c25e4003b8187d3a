"""What libmqs.so shows to the outside: its symbols, its header, its C."""

from __future__ import annotations

import re
import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest

from mqs_dll.contract import abi, errors
from mqs_dll.debugger import library_path
from tests.support.embedding import PROGRAMS, ROOT, WARNINGS, compile_program, libmqs, misuse

HEADER = library_path.header().read_text()
COMPILERS = ("gcc", "clang")


def exported(library: Path) -> set[str]:
    """Return the names that a library defines for others."""
    listed = subprocess.run(
        ["nm", "--dynamic", "--defined-only", "--format=posix", str(library)],
        capture_output=True,
        text=True,
        check=True,
    )
    return {line.split()[0] for line in listed.stdout.splitlines()}


def needed(compiler: str) -> str:
    """Return the compiler, or skip the test where it is missing."""
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not on this machine")
    return compiler


def test_the_library_exports_what_the_header_declares_and_nothing_else() -> None:
    """libmqs.so defines exactly the functions of mqs_interface.h."""
    declared = set(re.findall(r"^extern \w+ \*?((?:lib)?mqs_\w+)\(", HEADER, flags=re.MULTILINE))
    assert len(declared) == 20
    assert exported(libmqs()) == declared


OPTIONAL = {"mqs_get_comm_coll_state": False, "mqs_get_global_rank": True, "mqs_get_comm_group": True}
"""What padb's client searches for besides the interface, and whether libmqs has it."""


def test_collective_states_are_not_exported() -> None:
    """No MPI counts the calls of each collective on a communicator, so mqs_get_comm_coll_state can't return the truth.

    padb's client, which searches for it by dlsym, gets NULL and does without, before and after Python has started.
    """
    looks = [f"look_up:{name}" for name in OPTIONAL]
    results = misuse(libmqs(), [*looks, "version_string", *looks])
    found = [bool(each["found"]) for each in results if "found" in each]
    assert found == [*OPTIONAL.values(), *OPTIONAL.values()]
    assert {name: name in exported(libmqs()) for name in OPTIONAL} == OPTIONAL


def test_the_preload_library_exports_one_name() -> None:
    """libmqs_dll_name.so defines MPIR_dll_name alone, so that preloading it changes nothing else."""
    assert exported(library_path.dll_name_library()) == {"MPIR_dll_name"}


def test_the_header_and_abi_agree() -> None:
    """The numbers of mqs_interface.h are those of mqs_dll.contract.abi."""
    numbers = {name: int(value) for name, value in re.findall(r"\b(\w+) = (-?\d+)", HEADER)}
    assert numbers == {
        "mqs_ok": abi.ResultCode.OK,
        "mqs_no_information": abi.ResultCode.NO_INFORMATION,
        "mqs_end_of_list": abi.ResultCode.END_OF_LIST,
        "mqs_first_user_code": abi.ResultCode.FIRST_USER_CODE,
        "mqs_true": abi.ResultCode.OK,
        "mqs_false": abi.ResultCode.END_OF_LIST,
        "MQS_INVALID_PROCESS": abi.INVALID_RANK,
        "mqs_pending_sends": abi.Queue.SENDS,
        "mqs_pending_receives": abi.Queue.RECEIVES,
        "mqs_unexpected_messages": abi.Queue.UNEXPECTED,
        "mqs_st_pending": abi.Status.PENDING,
        "mqs_st_matched": abi.Status.MATCHED,
        "mqs_st_complete": abi.Status.COMPLETE,
    }
    assert f"MQS_INTERFACE_COMPATIBILITY {abi.VERSION_COMPATIBILITY}\n" in HEADER


def test_the_codes_that_c_finds_itself_are_those_of_the_error_tree() -> None:
    """csrc/python_side.h and errors.py give a failure the same code."""
    header = (ROOT / "csrc/python_side.h").read_text()
    assert {name: int(code) for name, code in re.findall(r"(mqs_\w+) = (\d+)", header)} == {
        "mqs_start_error": errors.StartError.code,
        "mqs_foreign_python": errors.ForeignPythonError.code,
        "mqs_bad_call": errors.BadCallError.code,
        "mqs_missing_callback": errors.MissingCallbackError.code,
    }


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("source", sorted(path.relative_to(ROOT) for path in ROOT.glob("csrc/**/*.c")), ids=str)
def test_the_library_compiles_without_a_warning(source: Path, compiler: str, tmp_path: Path) -> None:
    """Every C file of the library, the generated one too, passes gcc and clang with -Wall -Wextra -Werror."""
    texts = ("VERSION", "PYTHON_PREFIX", "SITE_DIRECTORIES", "PYTHON_VERSION", "PYTHON_EXECUTABLE")
    macros = [*(f'-DMQS_{name}="/"' for name in texts), "-DMQS_PYTHON_HAS_GIL=1", "-DNDEBUG"]
    directories = ["-Iinclude", "-Icsrc", f"-I{sysconfig.get_path('include')}"]
    command = [
        needed(compiler),
        *WARNINGS,
        *macros,
        *directories,
        "-fPIC",
        "-c",
        str(source),
        "-o",
        str(tmp_path / "o"),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("compiler", COMPILERS)
def test_the_library_compiles_with_the_headers_of_older_kernels(compiler: str, tmp_path: Path) -> None:
    """Those of RHEL 8 and Ubuntu 20.04 have no number for close_range."""
    source = tmp_path / "helper.c"
    source.write_text(
        f'#define _GNU_SOURCE\n#include <sys/syscall.h>\n#undef SYS_close_range\n#include "{ROOT}/csrc/helper.c"\n'
    )
    command = [needed(compiler), *WARNINGS, '-DMQS_PYTHON_EXECUTABLE="/"', "-Iinclude", "-Icsrc", "-fPIC", "-c"]
    done = subprocess.run(
        [*command, str(source), "-o", str(tmp_path / "o")], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_debugger_needs_the_header_alone(name: str, compiler: str, tmp_path: Path) -> None:
    """The C hosts compile with -Wall -Wextra -Werror against include/ and libc, without Python or any MPI."""
    compile_program(name, tmp_path / name, needed(compiler))
    assert (tmp_path / name).is_file()


@pytest.mark.parametrize("compiler", ["g++", "clang++"])
def test_the_header_is_fit_for_cpp(compiler: str, tmp_path: Path) -> None:
    """A debugger written in C++ can include mqs_interface.h: no warning, and C linkage."""
    source = tmp_path / "debugger.cpp"
    source.write_text(
        '#include "mqs_interface.h"\nextern "C" int (*entry)(void);\nint (*entry)(void) = mqs_dll_taddr_width;\n'
    )
    target = tmp_path / "debugger.o"
    include = str(library_path.header().parent)
    command = [needed(compiler), "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I", include, "-c", str(source)]
    done = subprocess.run([*command, "-o", str(target)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    listed = subprocess.run(["nm", str(target)], capture_output=True, text=True, check=True)
    assert "U mqs_dll_taddr_width" in listed.stdout
