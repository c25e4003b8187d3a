"""libmqs.so in a debugger: every way in which an embedded Python is known to fail, or to harm its host.

The debugger is tests/host/misuse, a C program that calls the library as it is asked to, or a Python of its own: what
crashes must not take the test run with it. What any of them finds on stdout or stderr fails the test.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import signal
import struct
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from mqs_dll import __version__
from mqs_dll.contract import errors
from mqs_dll.contract.abi import ResultCode
from mqs_dll.debugger import library_path
from mqs_dll.library import service
from tests.support.embedding import (
    ENVIRONMENT,
    MADE_UP,
    ROOT,
    SECONDS,
    copy_of_package,
    libmqs,
    minor_of,
    misuse,
    other_pythons,
)
from tests.support.made_up_session import MORE
from tests.support.targets import wait_until

VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
WORKING_VERSION = re.compile(
    rf"libmqs {re.escape(__version__)} \(Python {re.escape(VERSION)}\.\d+[^\s,]*(, in a process of its own)?\)"
)
IN_A_HELPER = "in a process of its own"
SET_UP = ("setup_basic_callbacks", "setup_image", "setup_process")
CALLS_ON_A_PROCESS = (
    "process_has_queues",
    "update_communicator_list",
    "setup_communicator_iterator",
    "get_communicator",
    "get_comm_group",
    "next_communicator",
    "setup_operation_iterator:0",
    "next_operation",
    "destroy_process_info",
)
COMMUNICATOR = struct.Struct("=Qqq64s")
OPERATION = struct.Struct("=i4xqqi4xqqi4xQqqqq64s64s64s64s64s")
AHEAD = int(re.findall(r"enum { AHEAD = (\d+),", (ROOT / "csrc/exports.c").read_text())[0])


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test twice, with Python in the host and in a helper process, unless it says what it is for."""
    given = [mark.args[0] for mark in metafunc.definition.iter_markers("parametrize")]
    if "side" not in given:
        metafunc.parametrize("side", ["embedded", "helper"], indirect=True)


@pytest.fixture(autouse=True)
def side(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return where Python works in the hosts of a test; "any" leaves the choice to libmqs.so."""
    if request.param != "any":
        monkeypatch.setitem(ENVIRONMENT, "MQS_PYTHON", request.param)
    return str(request.param)


embedded, helper, any_side = (
    pytest.mark.parametrize("side", [side], indirect=True) for side in ("embedded", "helper", "any")
)


@pytest.fixture
def made_up(tmp_path: Path) -> Path:
    """Return a copy of libmqs.so whose session has made-up communicators."""
    return copy_of_package(tmp_path, session=MADE_UP)


def codes(results: list[dict[str, Any]]) -> list[int]:
    """Return the result codes of those calls that have one."""
    return [result["code"] for result in results if "code" in result]


def version_of(library: Path | str, environment: Mapping[str, str] | None = None, directory: Path | None = None) -> str:
    """Return what mqs_version_string says in a process of its own."""
    text: str = misuse(library, ["version_string"], environment, directory)[0]["text"]
    return text


# ---------------------------------------------------------------- the interpreter starts, whatever the environment


def test_the_library_works_without_any_environment() -> None:
    """Opened with RTLD_LOCAL, without PYTHONPATH or an active venv, it finds its package, its cffi and its Python."""
    assert WORKING_VERSION.fullmatch(version_of(libmqs()))


def test_the_library_says_what_it_speaks() -> None:
    """The compatibility number is 2 and addresses have 8 bytes."""
    results = misuse(libmqs(), ["version_compatibility", "dll_taddr_width"])
    assert [result["value"] for result in results] == [2, 8]


@pytest.mark.parametrize(
    "variables",
    [
        {"PYTHONHOME": "/nonexistent"},
        {"PYTHONPATH": "/nonexistent", "PYTHONSTARTUP": "/nonexistent", "PYTHONEXECUTABLE": "/nonexistent"},
        {"PATH": "/nonexistent"},
        {"HOME": "/nonexistent", "LC_ALL": "xx_XX.nonsense"},
        {"PYTHONWARNINGS": "error", "PYTHONVERBOSE": "3", "PYTHONINSPECT": "1", "PYTHONMALLOC": "nonsense"},
    ],
    ids=lambda variables: "+".join(variables),
)
def test_variables_for_python_do_not_reach_the_library(variables: dict[str, str]) -> None:
    """Nothing in the debugger's environment keeps the interpreter from starting, or makes it print."""
    assert WORKING_VERSION.fullmatch(version_of(libmqs(), variables))


@pytest.mark.parametrize("module", ["mqs_dll", "_cffi_backend", "struct", "threading", "sitecustomize"])
def test_foreign_modules_are_not_imported(module: str, tmp_path: Path) -> None:
    """A module that PYTHONPATH, or the working directory, plants is never run inside the debugger."""
    (tmp_path / f"{module}.py").write_text(f"open({str(tmp_path / 'planted')!r}, 'w')\nraise SystemExit('planted')\n")
    assert WORKING_VERSION.fullmatch(version_of(libmqs(), {"PYTHONPATH": str(tmp_path)}, directory=tmp_path))
    assert not (tmp_path / "planted").exists()


def test_the_package_may_be_moved(tmp_path: Path) -> None:
    """The library finds its package beside itself, by a relative path and a symbolic link too."""
    library = copy_of_package(tmp_path / "elsewhere with spaces")
    (tmp_path / "link.so").symlink_to(library)
    assert WORKING_VERSION.fullmatch(version_of("./link.so", directory=tmp_path))


def test_the_host_may_change_its_directory(tmp_path: Path) -> None:
    """A library that was opened by a relative path still finds its package when the host has gone elsewhere."""
    copy_of_package(tmp_path)
    results = misuse("./mqs_dll/libmqs.so", ["change_directory:/", "version_string"], directory=tmp_path)
    assert WORKING_VERSION.fullmatch(results[-1]["text"])


@embedded
def test_the_standard_library_is_found_when_libpython_lies_elsewhere(tmp_path: Path) -> None:
    """Without a standard library beside libpython, that of the Python that libmqs was built for serves."""
    listed = subprocess.run(
        ["ldd", str(libmqs().with_name("libmqs_python.so"))], capture_output=True, text=True, check=True
    )
    found = re.search(r"(libpython\S+) => (\S+)", listed.stdout)
    assert found is not None
    shutil.copy(found[2], tmp_path / found[1])
    assert WORKING_VERSION.fullmatch(version_of(libmqs(), {"LD_LIBRARY_PATH": str(tmp_path)}))


def test_the_host_is_left_as_it_was() -> None:
    """Signal handlers, environment, locale and the buffers of C stdio are the same after the start and a session."""
    for environment in ({}, {"LC_ALL": "C"}, {"PYTHONUNBUFFERED": "1", "LC_CTYPE": "POSIX"}):
        before, *_, after = misuse(libmqs(), ["host_state", *SET_UP, *CALLS_ON_A_PROCESS, "host_state"], environment)
        assert before == after


# ---------------------------------------------------------------- a start that fails


def assert_every_call_fails(library: Path, code: int, reason: str, first: tuple[str, ...] = ()) -> None:
    """Check that no call succeeds, all say why, and none prints or crashes."""
    results = misuse(library, [*first, *SET_UP, "image_has_queues", *CALLS_ON_A_PROCESS, f"dll_error_string:{code}"])
    assert set(codes(results)) == {code}
    for result in results:
        if "code" in result:
            assert reason in result["error"]
        if "message" in result:
            assert reason in result["message"]
    assert reason in results[-1]["text"]
    last = misuse(library, [*first, *SET_UP, "get_global_rank", "version_string"])
    assert last[-2]["value"] == -1
    assert last[-1]["text"].startswith(f"libmqs {__version__} (Python ")
    assert last[-1]["text"].endswith(", which libmqs can't use)")


@embedded
def test_a_glue_that_does_not_load_is_an_error(tmp_path: Path) -> None:
    """When the Python part raises on import, every call answers 101 with the exception's text, where cffi answers 0."""
    library = copy_of_package(tmp_path, _glue="raise RuntimeError('broken on purpose')\n")
    assert_every_call_fails(library, errors.StartError.code, "RuntimeError: broken on purpose")


@embedded
def test_a_glue_that_exits_does_not_end_the_debugger(tmp_path: Path) -> None:
    """SystemExit on import is an error like any other."""
    library = copy_of_package(tmp_path, _glue="import sys\nsys.exit(3)\n")
    assert_every_call_fails(library, errors.StartError.code, "SystemExit: 3")


@embedded
def test_a_glue_that_attaches_nothing_is_an_error(tmp_path: Path) -> None:
    """When no function was attached, every call answers 101."""
    library = copy_of_package(tmp_path, _glue="")
    assert_every_call_fails(library, errors.StartError.code, "did not attach")


@embedded
def test_nothing_in_the_library_can_print(tmp_path: Path) -> None:
    """What Python code prints or warns of inside the library's own interpreter is seen by nobody."""
    glue = (libmqs().parent / "library/_glue.py").read_text()
    noise = "\nimport sys, warnings\nprint('seen')\nprint('seen', file=sys.stderr)\nwarnings.warn('seen')\n"
    assert WORKING_VERSION.fullmatch(version_of(copy_of_package(tmp_path, _glue=glue + noise)))


@embedded
@pytest.mark.parametrize(
    ("backend", "reason"),
    [("raise ImportError('half installed')\n", "ImportError: half installed"), ("", "_cffi_backend that was found")],
    ids=["broken", "unfit"],
)
def test_a_cffi_that_is_unfit_is_an_error(backend: str, reason: str, tmp_path: Path) -> None:
    """A _cffi_backend that can't be imported or used is an error with a reason; what cffi prints of it isn't seen."""
    library = copy_of_package(tmp_path)
    (tmp_path / "_cffi_backend.py").write_text(backend)
    assert_every_call_fails(library, errors.StartError.code, reason)


def test_a_missing_package_is_an_error(tmp_path: Path, side: str) -> None:
    """Libraries that were copied without their package answer 101 and say what they looked for, and where."""
    for name in ("libmqs.so", "libmqs_python.so"):
        shutil.copy(libmqs().with_name(name), tmp_path)
    reason = "no module mqs_dll in " if side == "embedded" else f"there is no {tmp_path}/library/helper_start.py"
    assert_every_call_fails(tmp_path / "libmqs.so", errors.StartError.code, reason)


def test_nothing_is_run_where_everybody_may_write(tmp_path: Path) -> None:
    """Whoever could put a module or a library beside libmqs.so would have it run in the debugger."""
    library = copy_of_package(tmp_path)
    library.parent.chmod(0o777)
    (*_, failed) = misuse(library, SET_UP[:2])
    assert failed["code"] == errors.StartError.code
    assert f"every user may write into {library.parent}: nothing that lies there is run" in failed["error"]


@embedded
def test_a_function_that_was_never_attached_is_an_error(tmp_path: Path) -> None:
    """When one function has no Python, every call answers 101 and names it: cffi would print, and answer mqs_ok."""
    glue = (libmqs().parent / "library/_glue.py").read_text()
    function = "def mqspy_update_communicator_list"
    assert f"@_answers\n{function}" in glue
    library = copy_of_package(tmp_path, _glue=glue.replace(f"@_answers\n{function}", function))
    assert_every_call_fails(library, errors.StartError.code, "mqspy_update_communicator_list")


@embedded
@pytest.mark.parametrize("answer", ["None", "0", "'text'", "1 << 40"])
def test_an_answer_that_is_none_is_no_success(answer: str, tmp_path: Path) -> None:
    """A function whose Python gives nothing that C can read answers 101, not cffi's 0, which is mqs_ok."""
    glue = (libmqs().parent / "library/_glue.py").read_text()
    call = "    _service.update_communicator_list(token)\n    return OK"
    assert call in glue
    library = copy_of_package(tmp_path, _glue=glue.replace(call, f"    return {answer}"), session=MADE_UP)
    result = misuse(library, [*SET_UP, "update_communicator_list", "setup_communicator_iterator"])
    assert result[-2]["code"] in (errors.StartError.code, errors.InternalError.code)
    assert result[-1]["code"] == 0


# ---------------------------------------------------------------- hosts that run Python themselves

ASK = """
import ctypes, sys
library = ctypes.CDLL({library!r})
library.mqs_version_string.restype = library.mqs_dll_error_string.restype = ctypes.c_char_p
callbacks = (ctypes.c_void_p * 8)(*[ctypes.cast(ctypes.pythonapi.Py_GetVersion, ctypes.c_void_p).value] * 8)
library.mqs_setup_basic_callbacks(callbacks)
before = list(sys.path), sys.stdin, sys.stdout, sys.stderr, dict(sys.modules).get("mqs_dll")
{prepare}
version = library.mqs_version_string().decode()
code = library.mqs_setup_image(None, None)
text = library.mqs_dll_error_string(code).decode()
assert before[:4] == (list(sys.path), sys.stdin, sys.stdout, sys.stderr)
print(code, version, text, sep="|")
"""


def ask(python: str, library: Path, prepare: str = "", *options: str) -> tuple[int, str, str]:
    """Let another Python load the library; return a code, the version and the code's text."""
    script = ASK.format(library=str(library), prepare=prepare)
    environment = {**ENVIRONMENT, "PYTHONWARNINGS": "error"}
    done = subprocess.run(
        [python, *options, "-c", script], capture_output=True, text=True, timeout=SECONDS, env=environment, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    code, version, text = done.stdout.rstrip("\n").split("|", 2)
    return int(code), version, text


def test_a_host_of_the_same_python_is_joined() -> None:
    """A host with this very Python gets a working library; its sys.path and its streams stay as they are."""
    code, version, text = ask(sys.executable, libmqs())
    assert WORKING_VERSION.fullmatch(version)
    assert (code, text) == (errors.BadCallError.code, "the image or its callbacks are NULL")


def test_a_joined_host_needs_no_access_to_our_packages() -> None:
    """An isolated host whose sys.path doesn't have libmqs is joined all the same."""
    outside = vars(sys)["_base_executable"]  # of the virtual environment
    _, version, _ = ask(outside, libmqs(), "assert 'mqs_dll' not in sys.modules", "-I", "-S")
    assert WORKING_VERSION.fullmatch(version)


def test_a_static_host_python_is_joined() -> None:
    """A host of the same version that has its Python in the executable itself, not in a libpython, is joined."""
    python = f"/usr/bin/python{VERSION}"
    if not os.access(python, os.X_OK):
        pytest.skip(f"{python} is not on this machine")
    linked = subprocess.run(["ldd", python], capture_output=True, text=True, check=True)
    if "libpython" in linked.stdout:
        pytest.skip(f"{python} is linked to a shared libpython")
    assert WORKING_VERSION.fullmatch(ask(python, libmqs())[1])


@embedded
def test_a_joined_host_sees_nothing_of_a_failed_start(tmp_path: Path) -> None:
    """A start that fails in the host's own Python prints nothing to its sys.stderr, and puts that back."""
    library = copy_of_package(tmp_path)
    (tmp_path / "_cffi_backend.py").write_text("")
    code, _, text = ask(sys.executable, library)
    assert code == errors.StartError.code
    assert "does not fit" in text


def test_a_capsule_whose_attributes_were_read_does_not_hang_the_start() -> None:
    """cffi takes the capsule type's version tag for a lock; a host that has used a capsule is joined all the same."""
    prepare = "import datetime; [datetime.datetime_CAPI.__class__ for _ in range(10)]; datetime.datetime_CAPI.__doc__"
    assert WORKING_VERSION.fullmatch(ask(sys.executable, libmqs(), prepare)[1])


@embedded
def test_a_host_that_has_another_libmqs_is_reported(tmp_path: Path) -> None:
    """A host that has imported mqs_dll from another place is not mixed with ours: an error names both places."""
    library = copy_of_package(tmp_path)
    prepare = (
        f"sys.path.insert(0, {str(libmqs().parent.parent)!r}); import mqs_dll; before = (list(sys.path), *before[1:])"
    )
    code, version, text = ask(sys.executable, library, prepare)
    assert code == errors.StartError.code
    assert "can't use" in version
    assert str(library.parent) in text
    assert str(libmqs().parent) in text


@embedded
def test_a_second_copy_of_the_library_is_reported(tmp_path: Path) -> None:
    """Two libmqs.so files in one process: the second answers with an error and leaves the first as it was."""
    library = copy_of_package(tmp_path)
    shutil.copy(library, library.with_name("second.so"))
    first = f"first = ctypes.CDLL({str(library)!r}); first.mqs_version_string()"
    code, _, text = ask(sys.executable, library.with_name("second.so"), first)
    assert code == errors.StartError.code
    assert "another copy of libmqs.so" in text


@any_side
def test_a_host_of_another_python_version_has_a_helper() -> None:
    """A host that runs another minor version of Python gets a working library; forced into it, 102 and a sentence."""
    pythons = other_pythons()
    if not pythons:
        pytest.skip(f"no Python but {VERSION} is on this machine")
    for python in pythons:
        code, version, text = ask(python, libmqs())
        assert (code, text) == (errors.BadCallError.code, "the image or its callbacks are NULL")
        assert IN_A_HELPER in version
    code, version, text = ask(pythons[0], libmqs(), "import os; os.environ['MQS_PYTHON'] = 'embedded'")
    assert code == errors.ForeignPythonError.code
    assert version.endswith(", which libmqs can't use)")
    assert f"the host process runs Python 3.{minor_of(pythons[0])}" in text
    assert f"this libmqs.so is built for Python {VERSION}" in text


def shared_library_of(python: str) -> Path | None:
    """Return the libpython that a Python is linked to."""
    linked = subprocess.run(["ldd", python], capture_output=True, text=True, check=False)
    found = re.search(r"libpython\S+ => (/\S+)", linked.stdout)
    return Path(found[1]) if found else None


@any_side
def test_another_libpython_in_the_process_is_left_alone() -> None:
    """Where a host has loaded another version's libpython for itself alone, a helper keeps their symbols apart."""
    libraries = [path for path in map(shared_library_of, other_pythons()) if path is not None]
    if not libraries:
        pytest.skip(f"no shared libpython but that of {VERSION} is on this machine")
    first = (f"load_local:{libraries[0]}",)
    assert IN_A_HELPER in misuse(libmqs(), [*first, "version_string"])[-1]["text"]


@embedded
def test_a_host_may_embed_python_and_end_it() -> None:
    """A C host's own interpreter is joined; once the host has finalized it, calls fail, and also in the next one."""
    libpython = shared_library_of(str(libmqs().with_name("libmqs_python.so")))
    commands = [f"load:{libpython}", "call:Py_Initialize", "version_string", *SET_UP]
    # Py_Initialize leaves its thread with the GIL, which is the hardest case for a library that it calls.
    end = ["call:Py_Finalize", "setup_image", "call:Py_Initialize", "setup_image", "setup_image"]
    results = misuse(libmqs(), [*commands, *end], {"PYTHONHOME": sys.base_prefix})
    assert WORKING_VERSION.fullmatch(results[2]["text"])
    assert codes(results) == [0, 0, *[errors.StartError.code] * 3]
    assert "has shut down the Python" in results[-1]["error"]


def test_python_threads_start_the_library_together() -> None:
    """First calls from many threads of a Python host, some of which hold the GIL, don't block each other."""
    prepare = f"""
import threading
kinds = [ctypes.CDLL, ctypes.PyDLL] * 8
barrier, codes = threading.Barrier(len(kinds)), []
def first(kind):
    entry = kind({str(libmqs())!r}).mqs_setup_image
    barrier.wait()
    codes.append(entry(None, None))
threads = [threading.Thread(target=first, args=(kind,)) for kind in kinds]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
assert codes == [104] * len(kinds), codes
"""
    assert WORKING_VERSION.fullmatch(ask(sys.executable, libmqs(), prepare)[1])


@embedded
def test_control_c_reaches_a_python_host(tmp_path: Path) -> None:
    """Ctrl-C during a call ends the call with an error, and is then raised in the host's own code."""
    interrupted = MADE_UP.replace("return Image(image)", "import signal; signal.raise_signal(signal.SIGINT)")
    prepare = f"""
try:
    library.mqs_setup_image(ctypes.c_void_p(1), callbacks)
    [None for _ in range(1000)]
    sys.exit("Ctrl-C was lost")
except KeyboardInterrupt:
    assert library.mqs_dll_error_string({errors.InternalError.code}) == b"the call was interrupted"
"""
    _, version, _ = ask(sys.executable, copy_of_package(tmp_path, session=interrupted), prepare)
    assert WORKING_VERSION.fullmatch(version)


# ---------------------------------------------------------------- calls that a debugger should not make


def test_calls_before_the_callbacks_are_refused() -> None:
    """Without mqs_setup_basic_callbacks every call answers 104 and says so."""
    results = misuse(libmqs(), [*SET_UP[1:], "image_has_queues", *CALLS_ON_A_PROCESS, "destroy_image_info"])
    assert set(codes(results)) == {errors.BadCallError.code}
    assert {result["error"] for result in results} == {"mqs_setup_basic_callbacks was not called"}


def test_calls_before_the_set_up_are_refused() -> None:
    """A process or an image that was not set up answers 104, and so does a process whose image was not."""
    results = misuse(libmqs(), ["setup_basic_callbacks", "image_has_queues", "setup_process", *CALLS_ON_A_PROCESS])
    assert set(codes(results)) == {errors.BadCallError.code}


def test_iterators_that_were_not_set_up_are_refused() -> None:
    """Cursors need their set-up first: 104, and nothing is left of what was in the struct before."""
    early = ["get_communicator", "get_comm_group", "next_communicator", "setup_operation_iterator:1", "next_operation"]
    results = misuse(libmqs(), [*SET_UP, *early])[len(SET_UP) :]
    assert codes(results) == [errors.BadCallError.code] * len(early)
    assert set(results[0]["bytes"]) == set(results[4]["bytes"]) == {"0"}


def test_null_pointers_are_refused(made_up: Path) -> None:
    """A NULL in place of any argument answers 104 and never crashes; the calls around it work."""
    nulls = [
        "setup_image:null",
        "setup_image:null-callbacks",
        "image_has_queues:null",
        "image_has_queues:null-message",
        "setup_process:null",
        "setup_process:null-callbacks",
        "process_has_queues:null-message",
        "get_communicator:null-place",
        "get_comm_group:null-place",
        "next_operation:null-place",
        *(f"{call.partition(':')[0]}:null" for call in CALLS_ON_A_PROCESS),
        "destroy_image_info:null",
    ]
    results = misuse(
        made_up, [*SET_UP, "setup_communicator_iterator", *nulls, "get_communicator", "get_global_rank:null"]
    )
    assert codes(results) == [0, 0, 0, *[errors.BadCallError.code] * len(nulls), 0]
    assert results[-1]["value"] == -1


def test_a_missing_table_of_callbacks_is_refused() -> None:
    """mqs_setup_basic_callbacks(NULL) takes back what was given: 104."""
    results = misuse(libmqs(), ["setup_basic_callbacks", "setup_basic_callbacks:null", "setup_image"])
    assert codes(results) == [errors.BadCallError.code]


def test_missing_callbacks_are_refused() -> None:
    """Without a callback that is needed, the call that takes the table answers 105, or the first one that needs it."""
    missing = errors.MissingCallbackError.code
    for number in range(4, 8):
        assert codes(misuse(libmqs(), [f"setup_basic_callbacks:without-{number}", "setup_image"])) == [missing]
    images = misuse(libmqs(), ["setup_basic_callbacks", *(f"setup_image:without-{number}" for number in range(5))])
    assert codes(images) == [missing] * 5
    processes = misuse(libmqs(), [*SET_UP, *(f"setup_process:without-{number}" for number in range(4))])
    assert codes(processes) == [0, 0, *[missing] * 4]


def test_infos_that_are_not_ours_are_refused(made_up: Path) -> None:
    """A pointer that the library never gave out is not followed: 104."""
    results = misuse(made_up, [*SET_UP, "spoil_infos", "image_has_queues", *CALLS_ON_A_PROCESS, "destroy_image_info"])
    assert set(codes(results[3:])) == {errors.BadCallError.code}


def test_destroyed_infos_are_refused(made_up: Path) -> None:
    """After mqs_destroy_..._info calls answer 104, a second destroy too; a new set-up works."""
    results = misuse(
        made_up,
        [
            *SET_UP,
            "destroy_process_info",
            "process_has_queues",
            "destroy_process_info",
            "destroy_image_info",
            "image_has_queues",
            "setup_image",
            "setup_process",
            "process_has_queues",
        ],
    )
    bad = errors.BadCallError.code
    assert codes(results) == [0, 0, 0, bad, bad, 0, bad, 0, 0, 0]


def test_unknown_queues_are_refused(made_up: Path) -> None:
    """There are three queues: any other number answers 104."""
    results = misuse(made_up, [*SET_UP, "setup_operation_iterator:3", "setup_operation_iterator:-1"])
    assert codes(results[3:]) == [errors.BadCallError.code] * 2


def test_a_call_from_within_a_callback_is_refused(made_up: Path) -> None:
    """A debugger's callback that calls the library gets 104; the call that it interrupts is not harmed."""
    inner = misuse(made_up, [*SET_UP, "call_back", "process_has_queues"])
    assert (inner[3]["inner_code"], inner[3]["code"], inner[4]["code"]) == (errors.BadCallError.code, 0, 0)


LEFT = "a callback of the debugger has left a call of libmqs for good"


@pytest.mark.parametrize("side", ["embedded", "helper", "any"], indirect=True)
@pytest.mark.parametrize("next_call", ["update_communicator_list", "from_below"])
def test_a_callback_may_jump_out_of_a_call(next_call: str, side: str, made_up: Path) -> None:
    """After longjmp what was set up is unknown; a new image works, in a helper: the host's Python can't go on."""
    again = [*SET_UP[1:], "process_has_queues"]
    results = misuse(made_up, [*SET_UP, "jump", next_call, "version_string", *again, "jump", *again])
    assert [each["jumped"] for each in results if "jumped" in each] == [1, 1 if side != "embedded" else 0]
    assert all(each.get("can_be_cancelled", True) for each in results)
    unknown, *then = codes(results)[2:]
    if side == "embedded":
        assert {unknown, *then} == {errors.StartError.code}
        assert LEFT in results[4]["error"]
    else:
        assert (unknown, *then) == (errors.BadCallError.code, *6 * [ResultCode.OK])
        assert IN_A_HELPER in results[5]["text"]


@pytest.mark.parametrize("side", ["embedded", "helper", "any"], indirect=True)
def test_a_fork_of_the_host_sets_up_anew(side: str, made_up: Path) -> None:
    """A child of a host whose other threads are in the library doesn't hang: it sets up again, with its own helper."""
    result = misuse(made_up, [*SET_UP, "fork_host"])[-1]
    assert result["child"] == (255 if side == "embedded" else errors.BadCallError.code)  # 255: it could not
    assert result["code"] == ResultCode.OK


def test_a_thread_that_is_cancelled_in_a_callback_ends_its_call_first(made_up: Path) -> None:
    """pthread_cancel waits until the library is left; other threads' calls go on, and so does what was set up."""
    results = misuse(made_up, [*SET_UP, "cancel", "update_communicator_list", "setup_communicator_iterator"])
    assert results[3]["cancelled"] == 1
    assert codes(results)[2:] == [errors.TargetReadError.code] * 2 + [ResultCode.OK]


def test_a_host_may_have_a_thousand_processes(made_up: Path) -> None:
    """Each of them has a cursor of its own, whatever the order of calls."""
    assert misuse(made_up, [*SET_UP[:2], "processes:1000"])[-1]["failed"] == 0


def test_what_is_let_go_is_forgotten(made_up: Path) -> None:
    """A thousand images and processes, one after the other, leave no memory behind in the host."""
    first, second = misuse(made_up, [SET_UP[0], "rounds:200", "rounds:1000"])[1:]
    assert first["failed"] == second["failed"] == 0
    assert second["resident_kib"] - first["resident_kib"] < 256


def test_several_threads_may_call(made_up: Path) -> None:
    """Eight threads on one process get results, ends of lists and foreseen errors: no crash, no internal error."""
    seen = misuse(made_up, [*SET_UP, "setup_communicator_iterator", "threads"])[-1]["codes"]
    assert ResultCode.OK in seen
    assert set(seen) <= {
        ResultCode.OK,
        ResultCode.NO_INFORMATION,
        ResultCode.END_OF_LIST,
        errors.BadCallError.code,
        errors.TargetReadError.code,
        errors.BrokenStructureError.code,
    }


def test_threads_may_make_the_first_call(made_up: Path) -> None:
    """The interpreter is started once when many threads call at first; all wait for it."""
    assert errors.StartError.code not in misuse(made_up, ["threads"])[0]["codes"]


def test_the_library_may_be_closed_and_opened_again(made_up: Path) -> None:
    """dlclose and dlopen, several times, before and after the interpreter has started."""
    results = misuse(
        made_up, ["reopen", *SET_UP, "reopen", "get_communicator", "reopen", *SET_UP, "process_has_queues"]
    )
    assert [(result["closed"], result["opened"]) for result in results if "closed" in result] == [(1, 1)] * 3
    assert codes(results) == [0] * 6


def test_every_code_has_a_sentence() -> None:
    """mqs_dll_error_string has a text for every code of the error tree, and for any other number."""
    numbers = [0, 1, 2, -1, 99, 2**31 - 1, *sorted({error.code for error in errors.all_errors()})]
    texts = [result["text"] for result in misuse(libmqs(), [f"dll_error_string:{number}" for number in numbers])]
    assert all(len(text) > 5 for text in texts)
    assert "unknown result code 99" in texts


# ---------------------------------------------------------------- what crosses the border


def test_callbacks_are_understood(made_up: Path) -> None:
    """The debugger's answers arrive whole: addresses, NULL for no type, -1 for no field, memory, sizes, rank."""
    results = misuse(
        made_up, ["setup_basic_callbacks", "setup_image:without-5", "image_has_queues", *SET_UP, "image_has_queues"]
    )
    assert results[2]["message"] == repr([0x400000, None, 0x10000, None, None, 16, None, None])
    assert results[-1]["message"] == repr([0x400000, None, 0x10000, None, None, 16, None, 48])
    process = misuse(made_up, [*SET_UP, "process_has_queues"])[-1]
    assert process["message"] == repr([b"\x10\x11\x12", b"\xff\x00", b"\x01\x00", 5, (2, 4, 8, 8, 8), 0x10000])


WATCHED_SIZES = """

_true_new = _new


def _new(kind, *rest):
    of = ffi.typeof(kind)
    if "mqs_target_type_sizes" not in of.cname:
        return _true_new(kind, *rest)
    size = ffi.sizeof(of.item) * (rest[0] if rest else 1)
    _watched[:] = [_true_new("char[]", size * b"\\0" + 64 * b"#"), size]
    return ffi.cast("mqs_target_type_sizes *", _watched[0])


_watched = []
_true_type_sizes = DebuggerImage.type_sizes


def _type_sizes(self, process):
    sizes = _true_type_sizes(self, process)
    memory, size = _watched
    assert _buffer(memory, size + 64)[size:] == 64 * b"#", "the debugger wrote behind what it was given"
    return sizes


DebuggerImage.type_sizes = _type_sizes
"""


def test_a_debugger_may_have_sizes_of_more_types(tmp_path: Path, side: str) -> None:
    """Open MPI's header has two more in mqs_target_type_sizes, for the same revision: there is room for more.

    With Python in a helper process the room is on C's stack: tests/library/test_sanitizers.py watches that.
    """
    glue = Path(service.__file__).with_name("_glue.py").read_text() + WATCHED_SIZES
    library = copy_of_package(tmp_path, session=MADE_UP, _glue=glue)
    process = misuse(library, ["seven_sizes", *SET_UP, "process_has_queues"])[-1]
    assert process["code"] == ResultCode.OK, process["message"]
    assert "(2, 4, 8, 8, 8)" in process["message"]


def test_a_failed_fetch_is_an_error_with_its_address(made_up: Path) -> None:
    """When the debugger can't read, the call fails; the text names address and size, and has the debugger's words."""
    result = misuse(made_up, [*SET_UP, "update_communicator_list"])[-1]
    assert result["code"] == errors.TargetReadError.code
    assert "cannot read 2 bytes of memory at 0x10fff in the target: the core file ends there (" in result["error"]
    silent = misuse(made_up, ["setup_basic_callbacks:without-3", *SET_UP[1:], "update_communicator_list"])[-1]
    assert silent["code"] == errors.TargetReadError.code
    assert "cannot read 2 bytes of memory at 0x10fff in the target (" in silent["error"]


def test_communicators_are_written_whole(made_up: Path) -> None:
    """The struct has the record's values; a name keeps its bytes, is cut at 63 and has nothing but NULs after it."""
    walk = ["setup_communicator_iterator", "get_communicator", "next_communicator", "get_communicator"]
    results = misuse(made_up, [*SET_UP, *walk])
    structs = [COMMUNICATOR.unpack(bytes.fromhex(result["bytes"])) for result in results if "bytes" in result]
    assert structs == [(0xFFFF_0000_0000_0001, 1, 3, b"caf\xe9".ljust(64, b"\0")), (2, 0, 2, b"n" * 63 + b"\0")]


def test_groups_are_written_within_their_size(made_up: Path) -> None:
    """mqs_get_comm_group writes as many ranks as the communicator has; a group of another size is an error instead."""
    walk = ["setup_communicator_iterator", "get_comm_group", "next_communicator", "next_communicator", "get_comm_group"]
    results = misuse(made_up, [*SET_UP, *walk])
    good, bad = (struct.unpack("=64i", bytes.fromhex(result["bytes"])) for result in results if "bytes" in result)
    assert good == (7, -1, 9, *[-1] * 61)
    assert results[-1]["code"] == errors.BrokenStructureError.code
    assert bad == (-1,) * 64


def test_the_cursor_stays_past_the_end(made_up: Path) -> None:
    """Past the last communicator get fails and next is harmless, however often they are called."""
    walk = ["setup_communicator_iterator", *["next_communicator"] * 4, "get_communicator", "get_comm_group"]
    end = ResultCode.END_OF_LIST
    assert codes(misuse(made_up, [*SET_UP, *walk]))[2:] == [0, 0, 0, end, end, end, errors.BadCallError.code]


def test_operations_are_written_whole(made_up: Path) -> None:
    """The struct has the record's values, five lines of text cut at 63 bytes, and unused lines are empty."""
    walk = ["setup_operation_iterator:1", *["next_operation"] * (1 + MORE), "next_operation", "next_operation"]
    results = misuse(made_up, [*SET_UP, *walk])[len(SET_UP) + 1 :]
    fields = OPERATION.unpack(bytes.fromhex(results[0]["bytes"]))
    assert fields[:12] == (1, 1, -2, 1, -3, 1 << 40, 1, 0xFFFF_FFFF_FFFF_F000, 4, 5, 6, 7)
    assert [line.rstrip(b"\0") for line in fields[12:]] == [b"one", b"2" * 63, b"three", b"", b""]
    assert [OPERATION.unpack(bytes.fromhex(each["bytes"]))[10] for each in results[1:-2]] == [*range(MORE)]
    for end in results[-2:]:
        assert end["code"] == ResultCode.END_OF_LIST
        assert set(end["bytes"]) == {"0"}


@pytest.mark.parametrize("call", ["setup_operation_iterator:1", "next_communicator", "setup_communicator_iterator"])
def test_what_was_listed_ahead_is_forgotten_when_something_is_moved(call: str, made_up: Path) -> None:
    """The next operation is what Python says then, not what it said before; calls that only look move nothing."""
    walk = ["setup_communicator_iterator", "setup_operation_iterator:1", "next_operation"]
    looked, moved = (
        OPERATION.unpack(bytes.fromhex(misuse(made_up, [*SET_UP, *walk, other, "next_operation"])[-1]["bytes"]))[10]
        for other in ("get_communicator", call)
    )
    assert looked == 0
    assert moved == (6 if call.startswith("setup_operation") else AHEAD - 1)


def test_a_queue_that_was_told_to_be_empty_is_asked_for_once(made_up: Path) -> None:
    """It is told with another one that is empty, and holds until something is moved; a second set-up asks again."""
    start = [*SET_UP, "setup_communicator_iterator", "next_communicator", "setup_operation_iterator:0"]
    look = ["get_communicator", "setup_operation_iterator:2", "next_operation", "setup_operation_iterator:2"]
    end, hidden = ResultCode.END_OF_LIST, ResultCode.NO_INFORMATION
    assert codes(misuse(made_up, [*start, "next_operation", *look]))[-5:] == [end, 0, 0, end, hidden]
    for move in ("setup_communicator_iterator", "setup_operation_iterator:1", "update_communicator_list"):
        assert codes(misuse(made_up, [*start, move, "setup_operation_iterator:2"]))[-1] == hidden


def test_failures_have_their_code_and_their_details(made_up: Path) -> None:
    """An error of libmqs keeps its code, an unforeseen one is 103, and the text says what happened and what to do."""
    results = misuse(
        made_up,
        [
            *SET_UP,
            "setup_operation_iterator:2",
            "setup_operation_iterator:0",
            "next_operation",
            "next_operation",
            "get_global_rank",
            f"dll_error_string:{errors.InternalError.code}",
            "dll_error_string:1",
        ],
    )
    assert codes(results)[2:] == [ResultCode.NO_INFORMATION, 0, 0, errors.BrokenStructureError.code]
    assert "this transport hides them" in results[3]["error"]
    assert errors.NoInformation.help in results[3]["error"]
    assert "the list breaks off" in results[6]["error"]
    assert results[7]["value"] == -1
    assert "ZeroDivisionError: a bug" in results[8]["text"]
    assert "this transport hides them" in results[9]["text"]


# ---------------------------------------------------------------- the helper process


def helpers(library: Path) -> list[int]:
    """Return the helper processes of a copy of libmqs."""
    program = os.fsencode(library.with_name("library") / "helper_start.py")
    return [
        int(each.parent.name) for each in Path("/proc").glob("[0-9]*/cmdline") if program in read(each).split(b"\0")
    ]


def read(path: Path) -> bytes:
    """Return what a file of /proc holds, nothing where its process is gone."""
    try:
        return path.read_bytes()
    except OSError:
        return b""


def find_helper(library: Path) -> str:
    """Return the lines of a host's script that set ``helper`` to the folder in /proc of its helper."""
    return f"""
from pathlib import Path
def is_helper(path):
    try:
        return {os.fsencode(library.with_name("library") / "helper_start.py")!r} in path.read_bytes().split(b"\\0")
    except OSError:
        return False
(helper,) = [path.parent for path in Path("/proc").glob("[0-9]*/cmdline") if is_helper(path)]
"""


@helper
def test_a_host_sees_nothing_of_its_helper(made_up: Path) -> None:
    """No child to wait for, no SIGCHLD, no descriptor below 64; and the helper has none of the host's."""
    prepare = f"""
import os, signal
os.dup2(os.open("/dev/zero", os.O_RDONLY), 20)  # inheritable
seen = []
signal.signal(signal.SIGCHLD, lambda *_: seen.append(1))
files = set(os.listdir("/proc/self/fd"))
version = library.mqs_version_string()
more = set(os.listdir("/proc/self/fd")) - files
assert [int(each) >= 64 and not os.get_inheritable(int(each)) for each in more] == [True], more
try:
    os.waitpid(-1, os.WNOHANG | 0x40000000)
    sys.exit("there is a child")
except ChildProcessError:
    assert not seen
{find_helper(made_up)}
held = [os.readlink(path) for path in helper.glob("fd/*")]
assert "/dev/null" in held and "/dev/zero" not in held, held
"""
    assert IN_A_HELPER in ask(sys.executable, made_up, prepare)[1]
    wait_until(lambda: not helpers(made_up))


REFUSE = """
import struct
def refuse(number, third=None):
    # A filter of system calls (seccomp, by BPF): as an older kernel, it doesn't know one (with that third argument).
    third_is = [] if third is None else [(0x20, 0, 0, 32), (0x15, 0, 1, third)]
    steps = [(0x20, 0, 0, 0), (0x15, 0, 1 + len(third_is), number), *third_is]
    steps += [(6, 0, 0, 0x50026), (6, 0, 0, 0x7FFF0000)]  # ENOSYS, and that it may be done
    program = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *step) for step in steps))
    libc = ctypes.CDLL(None, use_errno=True)
    table = ctypes.create_string_buffer(struct.pack("@HP", len(steps), ctypes.addressof(program)))
    assert libc.prctl(38, 1, 0, 0, 0) == 0
    assert libc.prctl(22, 2, ctypes.c_void_p(ctypes.addressof(table)), 0, 0) == 0, ctypes.get_errno()
"""
CLOSE_RANGE = 436
GETDENTS64 = {"x86_64": 217, "aarch64": 61}.get(platform.machine(), 0)
OUR_ROOM = 1 << 12
"""Bytes for which csrc/helper.c asks of the list of descriptors; the C library and Python ask for more at once."""


@helper
@pytest.mark.parametrize(
    "refused",
    [f"refuse({CLOSE_RANGE})", f"refuse({CLOSE_RANGE}); refuse({GETDENTS64}, {OUR_ROOM})"],
    ids=["without close_range", "without a list, either"],
)
def test_a_helper_has_none_of_its_hosts_files_on_older_kernels(refused: str, made_up: Path) -> None:
    """RHEL 8 and Ubuntu 20.04 have no close_range: /proc lists what is open, and else all numbers are tried."""
    prepare = f"""{REFUSE}
import os, resource
for number in (20, 900):
    os.dup2(os.open("/dev/zero", os.O_RDONLY), number)  # inheritable
resource.setrlimit(resource.RLIMIT_NOFILE, (100, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
{refused}
version = library.mqs_version_string()
{find_helper(made_up)}
held = {{path.name: os.readlink(path) for path in helper.glob("fd/*")}}
assert sorted(held) == ["0", "1", "2", "3"], held
"""
    assert IN_A_HELPER in ask(sys.executable, made_up, prepare)[1]


@helper
def test_another_thread_may_wait_for_all_children(made_up: Path) -> None:
    """A debugger's own waitpid(-1, __WALL) may be told of our process's end: the helper works all the same."""
    results = misuse(made_up, [SET_UP[0], "wait_for_children", *10 * ["setup_image", "destroy_image_info"]])
    assert codes(results) == 20 * [ResultCode.OK]


@helper
def test_a_fork_while_a_helper_is_started_has_none_of_its_channel(made_up: Path) -> None:
    """Else the child would keep the helper alive, and its end unseen by the host."""
    result = misuse(made_up, [SET_UP[0], "fork_while_starting"])[-1]
    assert (result["code"], result["sockets"]) == (ResultCode.OK, 0)


@helper
@pytest.mark.slow
def test_a_timer_of_the_hosts_does_not_make_a_start_last_longer(tmp_path: Path) -> None:
    """A helper that says nothing is given up after 30 s, however many signals arrive at the host."""
    library = copy_of_package(tmp_path, session=MADE_UP)
    (library.with_name("library") / "helper_start.py").write_text("import time; time.sleep(90)")
    prepare = """
import signal, time
signal.signal(signal.SIGALRM, lambda *_: None)
signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
begin = time.monotonic()
library.mqs_version_string()
signal.setitimer(signal.ITIMER_REAL, 0)
assert 20 < time.monotonic() - begin < 60, time.monotonic() - begin
"""
    assert ask(sys.executable, library, prepare)[0] == errors.StartError.code


@helper
@pytest.mark.parametrize("call", ["setup_image", "setup_process", "update_communicator_list", "next_operation"])
def test_a_helper_that_dies_is_an_error_and_the_next_image_has_another(call: str, tmp_path: Path) -> None:
    """Whenever it dies, the call answers 101 and a sentence, what was set up is unknown, and a new image works."""
    died = tmp_path / "died"
    once = (
        f"\n\ndef die():\n    from pathlib import Path\n    if not Path({str(died)!r}).exists():\n"
        f"        Path({str(died)!r}).touch()\n        import os\n        os._exit(1)\n"
    )
    session, count = re.subn(rf"(    def {call}s?\(self.*:\n)", r"\1        die()\n", MADE_UP)
    assert count > 0
    library = copy_of_package(tmp_path, session=session + once)
    calls = [*SET_UP[1:], "update_communicator_list", "setup_communicator_iterator", "setup_operation_iterator:1"]
    results = misuse(library, [SET_UP[0], *calls, "next_operation", *calls, "next_operation"])
    found = codes(results)
    (place,) = (index for index, code in enumerate(found) if code == errors.StartError.code)
    failed = [each for each in results if each.get("code") == errors.StartError.code]
    assert "libmqs's helper process has ended" in failed[0]["error"]
    assert set(found[place + 1 : 6]) <= {errors.BadCallError.code}
    assert found[6:] == [0, 0, errors.TargetReadError.code, 0, 0, 0]  # the made-up one can't read its list
    assert died.exists()


DIES_IN_TURN = """

import os

_serve, _Channel = serve, Channel


class Channel(_Channel):
    left = 0

    def step(self, part=b""):
        if Channel.left == 0:
            self._connection.sendall(part)
            os._exit(1)
        Channel.left -= 1

    def send(self, what, code=0, subject=0, number=0, data=b""):
        self.step()
        self.step(HEADER.pack(what, len(data), code, subject, number)[:7])
        super().send(what, code, subject, number, data)

    def receive(self):
        self.step()
        return super().receive()


def serve(generation):
    Channel.left = generation
    _serve(generation)
"""
"""The first helper ends before its first step, each one after it a step later; half a frame is one, too."""


@helper
def test_a_helper_that_dies_anywhere_is_an_error_and_the_next_image_has_another(tmp_path: Path) -> None:
    """At each step of the protocol: 101 and a sentence, then all is unknown; never a crash, a hang or half a record."""
    helper = Path(service.__file__).with_name("helper.py").read_text() + DIES_IN_TURN
    library = copy_of_package(tmp_path, session=MADE_UP, helper=helper)
    calls = [*SET_UP[1:], "process_has_queues", "setup_communicator_iterator", "get_communicator"]
    results = misuse(library, [SET_UP[0], *80 * calls])[1:]
    rounds = [results[place : place + len(calls)] for place in range(0, len(results), len(calls))]
    broken = [each for each in rounds if any(re.search("helper process|no text", call["error"]) for call in each)]
    assert 20 < len(broken) < len(rounds)
    for each in rounds:
        assert set(codes(each)) <= {ResultCode.OK, errors.StartError.code, errors.BadCallError.code}
        assert each in broken or set(codes(each)) == {ResultCode.OK}
        assert all(call["error"] for call in each)
        assert each[-1]["code"] == ResultCode.OK or not any(bytes.fromhex(each[-1]["bytes"]))
    failed = [codes(each).index(errors.StartError.code) for each in broken if errors.StartError.code in codes(each)]
    assert set(failed) == set(range(len(calls)))


@helper
def test_a_helper_that_cannot_start_is_tried_again_with_the_next_image(tmp_path: Path) -> None:
    """Other calls don't try: they fail at once, with the sentence of the attempt."""
    library = copy_of_package(tmp_path, session=MADE_UP)
    tries = tmp_path / "tries"
    start = library.with_name("library") / "helper_start.py"
    start.write_text(f"open({str(tries)!r}, 'a').write('x')")
    results = misuse(library, [SET_UP[0], *CALLS_ON_A_PROCESS, *SET_UP[1:], "get_communicator", "version_string"])[1:]
    assert set(codes(results)) == {errors.StartError.code}
    assert "does not run libmqs's helper" in results[0]["error"]
    of_one_attempt = misuse(library, [SET_UP[0], "version_string"]) and len(tries.read_text()) // 3
    assert len(tries.read_text()) == 3 * of_one_attempt


@helper
def test_a_helper_ends_with_the_last_image(made_up: Path, tmp_path: Path) -> None:
    """When all that was set up is destroyed the helper ends; the next image has another."""
    log = tmp_path / "log"
    calls = [*SET_UP, "destroy_process_info", "destroy_image_info", *SET_UP[1:], "process_has_queues"]
    assert set(codes(misuse(made_up, calls, {"MQS_LOG": str(log)}))) == {0}
    assert log.read_text().count(f"for {made_up}") == 2
    wait_until(lambda: not helpers(made_up))


ASK_FOR_A_TEXT = "assert library.mqs_dll_error_string(77) == b'made-up text for 77'\n"
FIND_CHANNEL = """
import os, select, signal, socket
library.mqs_version_string()
channel = max(int(each) for each in os.listdir("/proc/self/fd"))
"""


@helper
def test_a_host_that_closes_the_channel_gets_another_helper(made_up: Path) -> None:
    """What has the channel's number since is a file of the host's own: nothing is written to it, and it stays open."""
    prepare = f"""{FIND_CHANNEL}
ours, other = socket.socketpair()
os.dup2(ours.fileno(), channel)
{ASK_FOR_A_TEXT}
os.write(channel, b"ours")
assert other.recv(100) == b"ours"
ours.close(), other.close()
"""
    assert IN_A_HELPER in ask(sys.executable, made_up, prepare)[1]


@helper
def test_a_host_that_forks_keeps_its_helper_and_its_child_has_its_own(made_up: Path) -> None:
    """The child lets go of the channel, so that its parent's helper ends with the parent."""
    prepare = f"""{FIND_CHANNEL}
of_parent = os.fstat(channel).st_ino
child = os.fork()
{ASK_FOR_A_TEXT}
now = [os.fstat(number).st_ino for number in range(64, channel + 2) if os.path.exists(f"/proc/self/fd/{{number}}")]
assert len(now) == 1 and (now == [of_parent]) == bool(child), (of_parent, now, child)
if child:
    assert os.waitpid(child, 0)[1] == 0
"""
    assert IN_A_HELPER in ask(sys.executable, made_up, prepare)[1]


@helper
def test_a_helper_that_was_killed_sends_its_host_no_signal(made_up: Path) -> None:
    """The next call finds it gone, and neither it nor the one after ends the host by SIGPIPE."""
    prepare = f"""{FIND_CHANNEL}
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
{find_helper(made_up)}
os.kill(int(helper.name), signal.SIGKILL)
poll = select.poll()
poll.register(channel, 0)
assert poll.poll(10_000)
library.mqs_dll_error_string(77)
{ASK_FOR_A_TEXT}
"""
    assert IN_A_HELPER in ask(sys.executable, made_up, prepare)[1]


@any_side
def test_a_side_that_there_is_not_is_an_error() -> None:
    """MQS_PYTHON takes two words; with another one every call answers 101 and names them."""
    results = misuse(libmqs(), [*SET_UP], {"MQS_PYTHON": "elsewhere"})
    assert set(codes(results)) == {errors.StartError.code}
    assert 'MQS_PYTHON is neither "embedded" nor "helper"' in results[-1]["error"]


# ---------------------------------------------------------------- the log


def test_the_log_has_calls_and_errors(made_up: Path, tmp_path: Path) -> None:
    """MQS_LOG=FILE: a line for the start, for each call with its code, and for errors with their details."""
    log = tmp_path / "log"
    misuse(
        made_up,
        [*SET_UP, "update_communicator_list", "get_communicator:null", "get_global_rank"],
        {"MQS_LOG": str(log)},
    )
    lines = log.read_text().splitlines()
    assert lines
    assert all(re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6} \[\d+\] .", line) for line in lines)
    text = "\n".join(lines)
    assert re.search(rf"Python: .*{platform.python_version()}.* for {made_up}.*: ready", text)
    assert "mqs_setup_image = 0" in text
    assert "cannot read 2 bytes of memory at 0x10fff" in text
    assert f"mqs_update_communicator_list = {errors.TargetReadError.code}" in text
    assert f"mqs_get_communicator = {errors.BadCallError.code}: the process is NULL" in text
    assert "ZeroDivisionError" in text
    assert "Traceback" in text


def test_a_host_that_closes_the_log_has_its_number_for_itself(
    made_up: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is written to the file that has the number since, and the number is none of the low ones."""
    log, own = tmp_path / "log", tmp_path / "own"
    monkeypatch.setitem(ENVIRONMENT, "MQS_LOG", str(log))
    prepare = f"""
import os
library.mqs_version_string()
(number,) = [int(each) for each in os.listdir("/proc/self/fd")
             if os.path.realpath(f"/proc/self/fd/{{each}}") == os.path.realpath({str(log)!r})]
assert number >= 64 and not os.get_inheritable(number)
os.dup2(os.open({str(own)!r}, os.O_WRONLY | os.O_CREAT), number)
library.mqs_setup_image(None, None)
"""
    ask(sys.executable, made_up, prepare)
    assert log.read_text()
    assert own.read_text() == ""


@pytest.mark.parametrize("path", ["/nonexistent/log", "/", "/dev/full", ""])
def test_a_log_that_cannot_be_written_harms_nothing(path: str) -> None:
    """An MQS_LOG that can't be opened or written is passed over silently."""
    assert WORKING_VERSION.fullmatch(version_of(libmqs(), {"MQS_LOG": path}))


def test_a_log_whose_reader_leaves_harms_nothing(made_up: Path, tmp_path: Path) -> None:
    """Writing into a FIFO that nobody reads any more raises no SIGPIPE in the host: its signals are as they were.

    One that the host blocks, and that waits for it, goes on waiting.
    """
    fifo = tmp_path / "log"
    os.mkfifo(fifo)
    calls = ["update_communicator_list", "host_state"]
    blocked = [f"block_signal:{signal.SIGPIPE}", f"raise_signal:{signal.SIGPIPE}", "host_state", *calls]
    *results, before, _, after = misuse(
        made_up,
        [f"open_reader:{fifo}", "host_state", *SET_UP, "close_reader", *calls, *blocked],
        {"MQS_LOG": str(fifo)},
    )
    (gone,) = (each for each in results if each["command"] == "close_reader")
    states = [each for each in results if each["command"] == "host_state"]
    assert gone["read"] > 0
    assert (states[0]["pending"], before["pending"]) == ([], [signal.SIGPIPE])
    assert states[0] == states[1]
    assert before == after


def test_a_log_beyond_the_limit_of_file_sizes_harms_nothing(made_up: Path, tmp_path: Path) -> None:
    """A file that may not grow any more takes no more lines, and raises no SIGXFSZ in the host."""
    log = tmp_path / "log"
    calls = ["host_state", *SET_UP, "update_communicator_list", "host_state"]
    results = misuse(made_up, ["limit_file_size:100", *calls], {"MQS_LOG": str(log)})
    assert log.stat().st_size == 100
    assert results[1] == results[-1]


# ---------------------------------------------------------------- the library to preload


def test_the_preload_library_names_the_library_beside_it() -> None:
    """A process with libmqs_dll_name.so preloaded has the absolute path of libmqs.so in MPIR_dll_name."""
    script = "from ctypes import *; print(string_at(addressof(c_char.in_dll(CDLL(None), 'MPIR_dll_name'))).decode())"
    environment = {**os.environ, "LD_PRELOAD": str(library_path.dll_name_library())}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout.strip() == str(libmqs())


def test_nothing_of_this_machine_is_in_the_generated_file() -> None:
    """csrc/generated/ has no path in it: it is the same wherever it is generated."""
    assert re.search(r'"/\w', (ROOT / "csrc/generated/_libmqs.c").read_text()) is None
