"""Any MQS library through the C ABI, and which one is chosen."""

from __future__ import annotations

import logging
import os
import re
import shutil
import struct
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from mqs_dll.commands.which_library import choose_library, named_by_mpi, open_library, opener, windows
from mqs_dll.contract.abi import Communicator, Operation, Queue, ResultCode, Status
from mqs_dll.contract.errors import (
    BadCallError,
    DllError,
    ForeignLibraryError,
    LayoutError,
    MqsError,
    NoInformation,
    TargetReadError,
    UnknownMpiError,
)
from mqs_dll.contract.interface import ProcessQueues, QueueLibrary, TargetProcess
from mqs_dll.debugger import callbacks, dll, library_path
from mqs_dll.debugger.c_interface import ffi
from mqs_dll.debugger.collect import CountingProcess, ProcessReader, take_snapshot
from mqs_dll.debugger.dll import DynamicLibrary, DynamicProcess
from mqs_dll.debugger.live import LiveProcess
from mqs_dll.job.snapshot import CoreView, Hidden, QueueSnapshot
from mqs_dll.library.session import Library
from tests.support.containers import command, skip_without_containers
from tests.support.memory_image import MemoryImage, NoSymbols
from tests.support.targets import Plan, compile_target, compile_vendor, running, states
from tests.support.ways import run_host

PLAN_AT = 0x10000


class LampImage(NoSymbols):
    """An image with the symbols and the type that the vendor's library asks for."""

    def __init__(self, symbols: dict[str, int]) -> None:
        """Make it with variables."""
        self.symbols = symbols

    def find_symbol(self, name: str) -> int | None:
        """Return a variable's address."""
        return self.symbols.get(name)

    def find_function(self, name: str) -> int | None:
        """Return the one function's address."""
        return 0xFFFF_8000_0000_1234 if name == "lamp_watts" else None

    def find_type(self, name: str) -> object | None:
        """Return the one type."""
        return name if name == "lamp_t" else None

    def field_offset(self, handle: object, field: str) -> int | None:
        """Return the one member's offset."""
        return 4 if (handle, field) == ("lamp_t", "watts") else None

    def type_size(self, handle: object) -> int | None:
        """Return the size."""
        return 12


class BigEndian(MemoryImage):
    """A process whose words have to be turned round."""

    def to_host(self, data: bytes) -> bytes:
        """Turn the bytes round."""
        return data[::-1]

    def global_rank(self) -> int:
        """Return a rank."""
        return 41


def process_with_plan(plan: Plan) -> BigEndian:
    """Return a process that directs the vendor's library."""
    process = BigEndian({PLAN_AT: struct.pack(">i", plan).ljust(4096, b"\0")})
    process.image = LampImage({"plan": PLAN_AT})
    return process


@pytest.fixture(scope="module")
def vendors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory of a vendor's library."""
    directory = tmp_path_factory.mktemp("vendor")
    compile_vendor(directory / "good.so")
    return directory


@pytest.fixture
def vendor(vendors: Path) -> DynamicLibrary:
    """Return a vendor's library."""
    return DynamicLibrary(vendors / "good.so")


def first_communicator(library: DynamicLibrary, plan: Plan) -> DynamicProcess:
    """Return a process with the cursor on its first communicator."""
    process = process_with_plan(plan)
    queues = library.setup_image(process.image).setup_process(process)
    queues.update_communicator_list()
    queues.setup_communicator_iterator()
    return queues


# ---------------------------------------------------------------- opening


def test_a_missing_library(tmp_path: Path) -> None:
    """A file that isn't there is an error with its path and the dynamic linker's reason, without cffi's advice."""
    with pytest.raises(DllError) as failure:
        DynamicLibrary(tmp_path / "none.so")
    assert str(tmp_path / "none.so") in str(failure.value)
    assert str(failure.value).endswith("can't be loaded: cannot open shared object file: No such file or directory")


@pytest.mark.parametrize(
    ("option", "reason"),
    [
        ("-DBARE", "lacks mqs_setup_basic_callbacks, mqs_version_string, mqs_dll_error_string and 13 more"),
        ("-DREVISION=1", "revision 1 of MQS, not revision 2"),
        ("-DWIDTH=4", "addresses of 4 bytes"),
    ],
)
def test_a_library_of_another_kind(tmp_path: Path, option: str, reason: str) -> None:
    """A library that lacks entry points, or speaks another revision or width, is refused with the difference."""
    with pytest.raises(DllError, match=reason):
        DynamicLibrary(compile_vendor(tmp_path / "odd.so", option))


def test_the_library_speaks_of_itself(vendor: DynamicLibrary) -> None:
    """Version and texts are the library's own."""
    assert vendor.version_string() == "a vendor's library"
    assert vendor.error_string(117) == "the vendor's text for 117"


# ---------------------------------------------------------------- callbacks


def test_image_callbacks(vendor: DynamicLibrary) -> None:
    """Functions, types, offsets and sizes reach the library through C, and what isn't there is told as such."""
    with closing(vendor.setup_image(LampImage({}))) as image:
        assert image.has_queues() == "ffff800000001234 4 -1 12 0"


def test_process_callbacks(vendor: DynamicLibrary) -> None:
    """The rank and the sizes of types reach the library through C."""
    process = process_with_plan(Plan.SHOW)
    with closing(vendor.setup_image(process.image)) as image, closing(image.setup_process(process)) as queues:
        assert queues.has_queues() == "41 2 4 8 8 8"


def test_a_library_asks_for_the_symbols_of_the_process_that_a_call_is_about(vendor: DynamicLibrary) -> None:
    """Two processes of one image have their variables elsewhere: each is answered by its own, in whatever order."""
    first = process_with_plan(Plan.HIDE_QUEUES)
    elsewhere = PLAN_AT + 0x5000
    second = BigEndian({elsewhere: struct.pack(">i", Plan.FAIL_QUEUES).ljust(4096, b"\0")})
    second.image = LampImage({"plan": elsewhere})
    with closing(vendor.setup_image(first.image)) as image:
        both = [image.setup_process(each) for each in (first, second)]
        for queues in (*both, *reversed(both)):
            queues.update_communicator_list()
            queues.setup_communicator_iterator()
        for _ in range(2):
            with pytest.raises(NoInformation):
                both[0].setup_operation_iterator(Queue.RECEIVES)
            with pytest.raises(ForeignLibraryError):
                both[1].setup_operation_iterator(Queue.RECEIVES)
        assert image.has_queues() == "ffff800000001234 4 -1 12 0"


def strike(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let Ctrl-C strike in the next callback."""
    find = callbacks._object
    handles = iter([KeyboardInterrupt()])

    def struck(handle: object) -> object:
        for error in handles:
            raise error
        return find(handle)

    monkeypatch.setattr(callbacks, "_object", struck)


def test_ctrl_c_never_takes_from_a_library_what_it_keeps(monkeypatch: pytest.MonkeyPatch) -> None:
    """A library would crash on NULL: what it has put comes back, also where Ctrl-C strikes, which is noted."""
    process = process_with_plan(Plan.SHOW)
    image = callbacks.ImageHandle(process.image)
    handle = callbacks.ProcessHandle(process, image)
    info = ffi.cast("mqs_process_info *", 0x1000)
    table = callbacks.BASIC_CALLBACKS
    calls: list[tuple[Callable[[], object], object]] = [
        (lambda: table.mqs_put_process_info_fp(handle.c, info), None),
        (lambda: table.mqs_get_process_info_fp(handle.c), info),
        (lambda: callbacks.PROCESS_CALLBACKS.mqs_get_image_fp(handle.c), image.c),
    ]
    for call, answer in calls:
        with monkeypatch.context() as patch:
            strike(patch)
            assert call() == answer
        assert isinstance(callbacks.take_trouble(), KeyboardInterrupt)


def test_after_ctrl_c_a_library_gets_nothing_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """A library that would go on for long meets failures until it gives up."""
    process = process_with_plan(Plan.SHOW)
    handle = callbacks.ProcessHandle(process, callbacks.ImageHandle(process.image))
    data = ffi.new("char[4]")

    def fetch() -> int:
        code: int = callbacks.PROCESS_CALLBACKS.mqs_fetch_data_fp(handle.c, PLAN_AT, 4, data)
        return code

    with monkeypatch.context() as patch:
        strike(patch)
        assert fetch() != ResultCode.OK
    assert fetch() != ResultCode.OK
    callbacks.take_trouble()
    assert fetch() == ResultCode.OK


def test_processes_are_not_mixed_up(vendor: DynamicLibrary) -> None:
    """Two processes in one library each answer from their own memory."""
    shown, hidden = first_communicator(vendor, Plan.SHOW), first_communicator(vendor, Plan.HIDE_QUEUES)
    shown.setup_operation_iterator(Queue.RECEIVES)
    with pytest.raises(NoInformation):
        hidden.setup_operation_iterator(Queue.RECEIVES)
    assert shown.next_operation() is not None


def test_debug_prints_are_not_printed(
    vendor: DynamicLibrary, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """What a library prints for debugging goes to the log of Python."""
    with caplog.at_level(logging.DEBUG, "mqs_dll.debugger"):
        vendor.setup_image(NoSymbols())
    assert "an image" in caplog.text
    assert capfd.readouterr() == ("", "")


def test_an_exception_in_a_callback_is_the_cause(vendor: DynamicLibrary) -> None:
    """What fails in a callback comes back as the cause of the library's own failure."""
    process = process_with_plan(Plan.SHOW)
    process.pages.clear()
    queues = vendor.setup_image(process.image).setup_process(process)
    with pytest.raises(ForeignLibraryError) as failure:
        queues.update_communicator_list()
    assert isinstance(failure.value.__cause__, TargetReadError)


def test_a_ctrl_c_in_a_callback_is_raised(vendor: DynamicLibrary, capfd: pytest.CaptureFixture[str]) -> None:
    """Ctrl-C in a callback is raised when the call returns, though the library took it for a failure."""
    process = process_with_plan(Plan.SHOW)
    queues = vendor.setup_image(process.image).setup_process(process)

    def interrupt(address: int, size: int) -> bytes:
        raise KeyboardInterrupt

    process.fetch = interrupt  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        queues.update_communicator_list()
    assert capfd.readouterr() == ("", "")


def test_a_ctrl_c_is_raised_after_success_too(vendor: DynamicLibrary, capfd: pytest.CaptureFixture[str]) -> None:
    """Ctrl-C in a callback is raised also where the library takes the answer for a type that isn't there."""

    class Interrupted(LampImage):
        def find_type(self, name: str) -> object | None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        vendor.setup_image(Interrupted({})).has_queues()
    assert capfd.readouterr() == ("", "")


def test_fetches_are_counted(vendor: DynamicLibrary) -> None:
    """Every fetch counts, one that fails too; bytes count when they were read."""
    process = process_with_plan(Plan.SHOW)
    counting = CountingProcess(process)
    queues = vendor.setup_image(process.image).setup_process(counting)
    queues.update_communicator_list()
    process.pages.clear()
    with pytest.raises(MqsError):
        queues.update_communicator_list()
    assert (counting.reads, counting.bytes_read) == (2, 4)


# ---------------------------------------------------------------- answers


def test_communicators(vendor: DynamicLibrary) -> None:
    """Communicators come with 64-bit ids, names of all 64 bytes, and groups; past the end there is none."""
    queues = first_communicator(vendor, Plan.SHOW)
    assert queues.get_communicator() == Communicator(0xFFFF_FFFF_FFFF_FF02, 1, 3, b"caf\xc3\xa9" + b"n" * 59)
    assert queues.get_comm_group() == [-1, 4, 8]
    assert queues.next_communicator() is True
    assert queues.next_communicator() is False
    assert queues.get_communicator() is None
    with pytest.raises(BadCallError):
        queues.get_comm_group()


def test_operations(vendor: DynamicLibrary) -> None:
    """Every field of an operation crosses unchanged, and unused lines are left out."""
    queues = first_communicator(vendor, Plan.SHOW)
    queues.setup_operation_iterator(Queue.RECEIVES)
    assert queues.next_operation() == Operation(
        status=Status.MATCHED,
        desired_local_rank=-1,
        desired_global_rank=1 << 40,
        tag_wild=True,
        desired_tag=-2,
        desired_length=3,
        system_buffer=True,
        buffer=0xFFFF_FFFF_FFFF_F000,
        actual_local_rank=5,
        actual_global_rank=6,
        actual_tag=7,
        actual_length=8,
        extra_text=(b"x" * 64, b"caf\xe9"),
    )
    assert queues.next_operation() is not None
    assert queues.next_operation() is None


def test_no_information(vendor: DynamicLibrary) -> None:
    """mqs_no_information is NoInformation with the library's text, for queues and for groups."""
    queues = first_communicator(vendor, Plan.HIDE_QUEUES)
    with pytest.raises(NoInformation, match="the vendor's text for 1"):
        queues.setup_operation_iterator(Queue.SENDS)
    with pytest.raises(NoInformation):
        queues.get_comm_group()


def test_a_vendors_code(vendor: DynamicLibrary) -> None:
    """Any other code is ForeignLibraryError with the call, the code and the library's text."""
    queues = first_communicator(vendor, Plan.FAIL_QUEUES)
    with pytest.raises(ForeignLibraryError) as failure:
        queues.setup_operation_iterator(Queue.SENDS)
    assert str(failure.value) == "mqs_setup_operation_iterator failed with code 117: the vendor's text for 117"
    assert failure.value.code == 117


def test_a_vendors_message(vendor: DynamicLibrary) -> None:
    """A library that declines an image says why: in its message, and in its text for the code."""
    image = vendor.setup_image(LampImage({"decline": 0}))
    with pytest.raises(ForeignLibraryError, match=r"the vendor's text for 117: lamp_t$"):
        image.has_queues()


def test_an_odd_status(vendor: DynamicLibrary) -> None:
    """A status that the interface doesn't have is an error, not a guess."""
    queues = first_communicator(vendor, Plan.ODD_STATUS)
    queues.setup_operation_iterator(Queue.RECEIVES)
    with pytest.raises(ForeignLibraryError, match="7 is no status"):
        queues.next_operation()


def test_the_global_rank_is_optional(vendor: DynamicLibrary) -> None:
    """A library without mqs_get_global_rank has no information on it."""
    with pytest.raises(NoInformation, match="no mqs_get_global_rank"):
        first_communicator(vendor, Plan.SHOW).get_global_rank()


def test_the_end_is_reported_to_the_library(vendor: DynamicLibrary, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a library keeps for a process and for its image it is told to free when they are closed."""
    calls: list[str] = []
    true_call = vendor.call

    def call(name: str, *arguments: object) -> int:
        calls.append(name)
        return true_call(name, *arguments)

    process = process_with_plan(Plan.SHOW)
    with closing(vendor.setup_image(process.image)) as image, closing(image.setup_process(process)):
        monkeypatch.setattr(vendor, "call", call)
    assert calls == ["mqs_destroy_process_info", "mqs_destroy_image_info"]


def test_after_the_end(vendor: DynamicLibrary) -> None:
    """A closed image or process takes no more calls."""
    process = process_with_plan(Plan.SHOW)
    image = vendor.setup_image(process.image)
    queues = image.setup_process(process)
    queues.close()
    image.close()
    for call in (queues.get_communicator, queues.close, image.has_queues, image.close):
        with pytest.raises(BadCallError):
            call()


# ---------------------------------------------------------------- a snapshot


@contextmanager
def planner(directory: Path, plan: Plan) -> Iterator[LiveProcess]:
    """Give a live process with a plan for the vendor's library."""
    program = compile_target(directory / "planner", "planner.c", '-DDLL_NAME="good.so"')
    with running(program, str(int(plan))) as target, LiveProcess(target.pid) as process:
        yield process


def test_a_snapshot(vendor: DynamicLibrary, vendors: Path) -> None:
    """A snapshot has everything that the library told in one stop of the process, with what that cost."""
    counts: list[int] = []
    with planner(vendors, Plan.SHOW) as process:
        snapshot = take_snapshot(vendor, process, library_path="a path", on_communicator=counts.append)
        assert states(process.pid) <= {"R", "S"}
    assert (snapshot.pid, snapshot.program, snapshot.global_rank) == (process.pid, "planner", None)
    assert (snapshot.library, snapshot.library_path) == ("a vendor's library", "a path")
    assert (snapshot.image_message, snapshot.process_message) == ("0 0 0 0 0", "-1 2 4 8 8 8")
    assert [each.communicator.unique_id & 0xFF for each in snapshot.communicators] == [2, 1]
    assert [each.group for each in snapshot.communicators] == [(-1, 4, 8)] * 2
    assert [len(queue.operations) for queue in snapshot.communicators[0].queues] == [0, 2, 2]
    assert counts == [0, 1]
    assert snapshot.stop_time > 0
    assert snapshot.reads == snapshot.bytes_read // 4 > 0


def test_hidden_and_broken_queues(vendor: DynamicLibrary, vendors: Path) -> None:
    """A queue that can't be read has the reason; one that breaks off has what came before, and the failure."""
    with planner(vendors, Plan.HIDE_QUEUES) as process:
        hidden = take_snapshot(vendor, process).communicators[0]
    assert hidden.group == Hidden("the vendor's text for 1")
    assert {(queue.operations, queue.hidden, queue.broken) for queue in hidden.queues} == {
        ((), Hidden("the vendor's text for 1"), None)
    }
    with planner(vendors, Plan.BREAK_QUEUES) as process:
        sends, receives, _ = take_snapshot(vendor, process).communicators[0].queues
    assert (len(receives.operations), receives.hidden) == (1, None)
    assert receives.broken == "mqs_next_operation failed with code 117: the vendor's text for 117"
    assert sends == QueueSnapshot(Queue.SENDS, ())


def test_what_is_read_further(vendor: DynamicLibrary, vendors: Path) -> None:
    """A further look happens while the process still stands, and its result is part of the snapshot."""
    view = CoreView(windows=())
    seen = []

    def read_further(queues: ProcessQueues, process: TargetProcess) -> CoreView:
        assert isinstance(process, LiveProcess)
        seen.append(states(process.pid))
        return view

    with planner(vendors, Plan.SHOW) as process:
        assert take_snapshot(vendor, process, read_further=read_further).core is view
    assert seen == [{"t"}]


# ---------------------------------------------------------------- libmqs


@pytest.mark.parametrize("make", [Library, lambda: DynamicLibrary(library_path.library())], ids=["direct", "libmqs.so"])
def test_libmqs_fails_alike_on_both_ways(make: Callable[[], QueueLibrary]) -> None:
    """libmqs.so raises the classes of errors.py with the texts that the Python core raises."""
    image = make().setup_image(NoSymbols())
    with pytest.raises(UnknownMpiError) as failure:
        image.has_queues()
    assert str(failure.value).startswith("the program uses no MPI that libmqs knows: it has neither")
    image.close()
    with pytest.raises(BadCallError):
        image.has_queues()


# ---------------------------------------------------------------- which library


def process_with_dll_name(memory: bytes, at: int = 0x20000) -> MemoryImage:
    """Return a process with the variable MPIR_dll_name."""
    process = MemoryImage({0x20000: memory.ljust(4096, b"\0")})
    process.image = LampImage({"MPIR_dll_name": at})
    return process


@pytest.mark.parametrize(
    "memory",
    [b"/opt/lib/libvendor.so", struct.pack("<Q", 0x20010).ljust(16, b"\0") + b"/opt/lib/libvendor.so"],
    ids=["array", "pointer"],
)
def test_mpir_dll_name(memory: bytes) -> None:
    """MPIR_dll_name is read as an array of char, and as a pointer to one."""
    assert named_by_mpi(process_with_dll_name(memory)) == "/opt/lib/libvendor.so"


def test_a_short_name_is_no_pointer() -> None:
    """A name so short that its bytes could be a pointer is still a name."""
    assert named_by_mpi(process_with_dll_name(b"a.so")) == "a.so"


def test_a_name_at_the_end_of_memory() -> None:
    """A name that ends where mapped memory ends is read whole."""
    process = process_with_dll_name(b"x" * 4080 + b"/lib/libvendor.".ljust(16, b"\0"), at=0x20000 + 4080)
    assert named_by_mpi(process) == "/lib/libvendor."


@pytest.mark.parametrize("memory", [b"", b"\x01\x02garbage", b"x" * 4096], ids=["empty", "controls", "endless"])
def test_no_name(memory: bytes) -> None:
    """What is no path isn't taken for one."""
    with pytest.raises(DllError, match="holds no path"):
        named_by_mpi(process_with_dll_name(memory))


def test_the_order_of_choice(vendors: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """--dll precedes MQS_DLL, and without either the Python core reads, whatever the process names."""
    good, named = str(vendors / "good.so"), "/opt/lib/libvendor.so"
    process = process_with_dll_name(named.encode())
    assert choose_library(process, "given.so") == "given.so"
    assert choose_library(process, "auto") == named
    for variable in (None, ""):
        monkeypatch.delenv("MQS_DLL", raising=False) if variable is None else monkeypatch.setenv("MQS_DLL", variable)
        queues, path = opener()(process)
        assert (type(queues), path) == (Library, None)
    monkeypatch.setenv("MQS_DLL", good)
    assert opener()(process)[1] == good
    assert opener(show_internal=True)(process)[1] is None
    with pytest.raises(DllError, match=r"given\.so can't be loaded"):
        opener("given.so")(process)
    monkeypatch.setenv("MQS_DLL", "auto")
    with pytest.raises(DllError, match=f"{named} can't be loaded"):
        opener()(process)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_another_users_library_is_not_run_because_a_process_names_it(vendors: Path, tmp_path: Path) -> None:
    """What lies in the target says nothing of what may run as us."""
    library = Path(shutil.copy(vendors / "good.so", tmp_path))
    process = process_with_dll_name(bytes(library))
    os.chown(library, 12345, -1)
    with pytest.raises(DllError, match="belongs to user 12345"):
        open_library(process, "auto")
    assert open_library(process, str(library)).path == str(library)


@pytest.mark.root
@pytest.mark.parametrize("outside", ["another", "nothing", "the same"])
def test_what_a_process_names_in_a_container_is_loaded_if_it_is_the_very_file(
    outside: str, vendors: Path, tmp_path: Path
) -> None:
    """Whatever file has its path outside: it isn't what the process means."""
    skip_without_containers(None)
    place = tmp_path / "place"
    place.mkdir()
    planner = compile_target(tmp_path / "planner", "planner.c", f'-DDLL_NAME="{place}/good.so"')
    if outside != "nothing":
        shutil.copy(vendors / "good.so", place)
    mount = "" if outside == "the same" else 'mount -t tmpfs none "$1"; cp "$2"/good.so "$1"; '
    contained = command(f'{mount}shift 2; exec "$@"', place, vendors, planner, users=False)
    with running(*contained) as process, LiveProcess(process.pid) as target:
        if outside == "the same":
            assert open_library(target, "auto").path == f"{place}/good.so"
            return
        with pytest.raises(DllError, match=f"{place}/good.so, which the program names, is a file of its container"):
            open_library(target, "auto")


@pytest.mark.parametrize("mode", [0o775, 0o757])
def test_a_library_that_others_may_write_is_not_run_because_a_process_names_it(
    mode: int, vendors: Path, tmp_path: Path
) -> None:
    """Whoever may write the file says what it does; named by --dll, it is the user who says so."""
    library = Path(shutil.copy(vendors / "good.so", tmp_path))
    library.chmod(mode)
    process = process_with_dll_name(bytes(library))
    with pytest.raises(DllError, match=f"{library}, which the program names, may be written by others.* `--dll "):
        open_library(process, "auto")
    assert open_library(process, str(library)).path == str(library)
    library.chmod(0o755)
    assert open_library(process, "auto").path == str(library)


def test_what_was_checked_is_what_is_loaded(vendors: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that comes in place of the one that was checked, before it is loaded, is not loaded."""
    link, other = tmp_path / "link.so", tmp_path / "other.so"
    link.symlink_to(shutil.copy(vendors / "good.so", tmp_path))
    other.write_text("no library")
    load = dll._open

    def load_late(*arguments: str) -> object:
        other.replace(link)
        return load(*arguments)

    monkeypatch.setattr(dll, "_open", load_late)
    queues, path = opener("auto")(process_with_dll_name(bytes(link)))
    assert (path, link.read_text()) == (str(link), "no library")
    assert isinstance(queues, DynamicLibrary)
    assert "vendor" in queues.version_string()


def test_a_library_that_several_processes_name_is_loaded_once(vendors: Path, tmp_path: Path) -> None:
    """Whatever they call it: one descriptor stays open for it, and dlopen knows it."""
    library = Path(shutil.copy(vendors / "good.so", tmp_path))
    (tmp_path / "link.so").symlink_to(library)
    first = open_library(process_with_dll_name(bytes(library)), "auto")
    before = [*Path("/proc/self/fd").iterdir()]
    second = open_library(process_with_dll_name(bytes(tmp_path / "link.so")), "auto")
    assert (second.calls, len([*Path("/proc/self/fd").iterdir()])) == (first.calls, len(before))


def test_a_named_library_that_is_none_is_called_by_its_path(tmp_path: Path) -> None:
    """Sentences know the path that the program names, and nothing of descriptors; a FIFO isn't waited for."""
    text, fifo = tmp_path / "text.so", tmp_path / "fifo.so"
    text.write_text("no library")
    os.mkfifo(fifo)
    for path, why in (
        (text, f"the MQS library {text} can't be loaded: file too short"),
        (tmp_path / "none.so", f"the MQS library {tmp_path}/none.so can't be loaded: No such file"),
        (fifo, f"{fifo}, which the program names, is no regular file"),
        (tmp_path, f"{tmp_path}, which the program names, is no regular file"),
    ):
        with pytest.raises(DllError, match=re.escape(why)):
            open_library(process_with_dll_name(bytes(path)), "auto")


def test_a_program_that_names_none() -> None:
    """A program without MPIR_dll_name is told so."""
    with pytest.raises(DllError, match="no symbol MPIR_dll_name"):
        choose_library(MemoryImage({}), "auto")


def test_a_relative_path_is_a_file(vendors: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A path that is there is that file, though dlopen would search for a name without a slash elsewhere."""
    monkeypatch.chdir(vendors)
    assert choose_library(MemoryImage({}), "good.so") == str(vendors / "good.so")


def test_an_mpi_whose_symbols_are_hidden_is_no_mpi_with_queues(tmp_path: Path) -> None:
    """mqs_image_has_queues is ok only where all symbols are there that every build exports; else it names one."""
    with running(compile_target(tmp_path / "half", "half.c")) as process, LiveProcess(process.pid) as target:
        for library in (Library(), DynamicLibrary(library_path.library())):
            with (
                closing(library.setup_image(target.image)) as image,
                pytest.raises(LayoutError, match="mca_pml_base_recv_requests is missing"),
            ):
                image.has_queues()
        (document,) = run_host(library_path.library(), process.pid)
    answer = document["image_has_queues"]
    assert answer["code"] == LayoutError.code
    assert "mca_pml_base_recv_requests is missing" in answer["error"]


def test_windows_of_an_mpi_that_only_a_vendor_knows_are_hidden(vendor: DynamicLibrary, vendors: Path) -> None:
    """What the Python core refuses is said, look for look; what the vendor's library reads of the rank stays."""
    read_further = windows()
    with planner(vendors, Plan.SHOW) as process, ProcessReader(vendor, process, pid=1, program="lamp") as look:
        for _ in range(2):
            snapshot = look.read(read_further)
            assert len(snapshot.communicators) == 2
            assert isinstance(snapshot.core.windows, Hidden)
            assert "uses no MPI that libmqs knows" in snapshot.core.windows.reason
