"""What a debugger offers to an MQS library: C callbacks that are answered by a TargetImage and a TargetProcess.

The tables are the same for all libraries, images and processes: a handle that the library gives back says which
one is meant. An exception can't cross C: the callback answers with a code, and the exception is kept for the one
who made the call (take_trouble).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

from mqs_dll.contract.abi import ResultCode
from mqs_dll.contract.errors import MqsError, all_errors
from mqs_dll.contract.interface import TargetImage, TargetProcess
from mqs_dll.debugger.c_interface import ffi

_log = logging.getLogger(__name__)
_per_thread = threading.local()
_libc: Any = ffi.dlopen(None)
_made: dict[str, Any] = {"mqs_malloc": ffi.addressof(_libc, "malloc"), "mqs_free": ffi.addressof(_libc, "free")}
"""The callbacks as C functions, by the interface's names for them."""


class _Handle:
    """What the library names by a pointer, with what the library keeps for it; it lives as long as this object."""

    def __init__(self, target: Any, c_type: str) -> None:
        self.target = target
        self.info = ffi.NULL
        self._handle = ffi.new_handle(self)  # a circle, which Python breaks some day
        self.c = ffi.cast(c_type, self._handle)

    def let_go(self) -> None:
        """Forget the target, which could be kept open by it: the library has no more questions."""
        self.target = None


class ImageHandle(_Handle):
    """One image as the library names it."""

    def __init__(self, image: TargetImage) -> None:
        """Make a handle for ``image``."""
        super().__init__(image, "mqs_image *")
        self.types: dict[str, tuple[TypeHandle, Any]] = {}

    def let_go(self) -> None:
        """Forget the image and its types."""
        super().let_go()
        self.types.clear()


class TypeHandle:
    """One type as the library names it."""

    def __init__(self, image: TargetImage, type_: Any) -> None:
        """Remember a type, and the image that knows it."""
        self.image = image
        self.type = type_


class ProcessHandle(_Handle):
    """One process as the library names it."""

    def __init__(self, process: TargetProcess, image: ImageHandle) -> None:
        """Make a handle for ``process``."""
        super().__init__(process, "mqs_process *")
        self.image = image


def go_to(handle: ImageHandle | ProcessHandle) -> None:
    """Say what the next calls of this thread are about: of a process, its image's symbols are where it has them."""
    _per_thread.at = handle


def _at(image: Any) -> TargetImage:
    """Return the image that a question about symbols means: that of the process which the call is about."""
    owner: ImageHandle = _object(image)
    handle = getattr(_per_thread, "at", None)
    if isinstance(handle, ProcessHandle) and handle.image is owner:
        of_process: TargetImage = handle.target.image
        return of_process
    target: TargetImage = owner.target
    return target


def take_trouble() -> BaseException | None:
    """Return the last exception in a callback of this thread since the last time, and forget it."""
    trouble: BaseException | None = getattr(_per_thread, "trouble", None)
    _per_thread.trouble = None
    return trouble


def _note_trouble(_kind: type[BaseException], error: BaseException, _trace: Any) -> None:
    if not _interrupted():
        _per_thread.trouble = error  # but a Ctrl-C is never covered by what follows from it


def _interrupted() -> bool:
    """Return whether a Ctrl-C has struck in a callback of the call that is being made."""
    return not isinstance(getattr(_per_thread, "trouble", None), (type(None), Exception))


def _note_and_answer_code(kind: type[BaseException], error: BaseException, trace: Any) -> int:
    _note_trouble(kind, error, trace)
    return error.code if isinstance(error, MqsError) else MqsError.code


def _callback(name: str, failure: Any = None) -> Callable[[Callable[..., Any]], None]:
    """Make a callback of a function, which answers ``failure`` after an exception."""

    def make(function: Callable[..., Any]) -> None:
        _made[name] = ffi.callback(f"{name}_ft", function, error=failure, onerror=_note_trouble)

    return make


def _hands_over(*names: str, failure: Any = None) -> Callable[[Callable[..., Any]], None]:
    """Make a callback of a function that only keeps something for the library, or gives it back.

    A library takes that for granted: given NULL, it would crash. So a Ctrl-C that strikes here is noted, and the
    function is called again.
    """

    def make(function: Callable[..., Any]) -> None:
        arguments = function.__code__.co_varnames[: function.__code__.co_argcount]

        def note_and_repeat(kind: type[BaseException], error: BaseException, trace: Any) -> Any:
            _note_trouble(kind, error, trace)
            if isinstance(error, Exception) or trace is None:
                return None
            return function(*(trace.tb_frame.f_locals[name] for name in arguments))

        for name in names:
            _made[name] = ffi.callback(f"{name}_ft", function, error=failure, onerror=note_and_repeat)

    return make


def _answers_code(name: str) -> Callable[[Callable[..., bool]], None]:
    """Make a callback that answers mqs_ok when the function returns True, mqs_no_information for False.

    After a Ctrl-C it fails, so that a library that goes on for long gives up.
    """

    def make(function: Callable[..., bool]) -> None:
        def answer(*arguments: Any) -> int:
            if _interrupted():
                return MqsError.code
            return ResultCode.OK if function(*arguments) else ResultCode.NO_INFORMATION

        _made[name] = ffi.callback(f"{name}_ft", answer, error=MqsError.code, onerror=_note_and_answer_code)

    return make


def _object(handle: Any) -> Any:
    return ffi.from_handle(ffi.cast("void *", handle))


def _text(name: Any) -> str:
    text: str = ffi.string(name).decode("utf-8", "surrogateescape")
    return text


# ---------------------------------------------------------------- without regard to an image


@_callback("mqs_dprints")
def _dprints(text: Any) -> None:
    _log.debug("the library says: %s", _text(text))


_ERROR_STRINGS = {
    error.code: ffi.new("char[]", (error.__doc__ or error.__name__).split("\n")[0].encode())
    for error in all_errors()
    if "code" in vars(error)
}
_UNKNOWN_ERROR = ffi.new("char[]", b"an error that this debugger doesn't know")


@_callback("mqs_errorstring", ffi.NULL)
def _errorstring(code: int) -> Any:
    return _ERROR_STRINGS.get(code, _UNKNOWN_ERROR)


@_hands_over("mqs_put_image_info", "mqs_put_process_info")
def _put_info(owner: Any, info: Any) -> None:
    _object(owner).info = info


@_hands_over("mqs_get_image_info", "mqs_get_process_info", failure=ffi.NULL)
def _get_info(owner: Any) -> Any:
    return _object(owner).info


# ---------------------------------------------------------------- of an image


@_callback("mqs_get_type_sizes")
def _get_type_sizes(process: Any, sizes: Any) -> None:
    for name, size in _object(process).target.type_sizes()._asdict().items():
        setattr(sizes, name, size)


@_answers_code("mqs_find_function")
def _find_function(image: Any, name: Any, _language: int, address: Any) -> bool:
    return _put_address(address, _at(image).find_function(_text(name)))


@_answers_code("mqs_find_symbol")
def _find_symbol(image: Any, name: Any, address: Any) -> bool:
    return _put_address(address, _at(image).find_symbol(_text(name)))


def _put_address(address: Any, found: int | None) -> bool:
    if found is not None and address != ffi.NULL:
        address[0] = found
    return found is not None


@_callback("mqs_find_type", ffi.NULL)
def _find_type(image: Any, name: Any, _language: int) -> Any:
    owner: ImageHandle = _object(image)
    key = _text(name)
    if key not in owner.types:
        found = owner.target.find_type(key)
        if found is None:
            return ffi.NULL
        type_ = TypeHandle(owner.target, found)
        owner.types[key] = type_, ffi.new_handle(type_)
    return ffi.cast("mqs_type *", owner.types[key][1])


@_callback("mqs_field_offset", -1)
def _field_offset(handle: Any, name: Any) -> int:
    type_: TypeHandle = _object(handle)
    return _or_minus_one(type_.image.field_offset(type_.type, _text(name)))


@_callback("mqs_sizeof", -1)
def _sizeof_type(handle: Any) -> int:
    type_: TypeHandle = _object(handle)
    return _or_minus_one(type_.image.type_size(type_.type))


def _or_minus_one(number: int | None) -> int:
    return -1 if number is None else number


# ---------------------------------------------------------------- of a process


@_callback("mqs_get_global_rank", -1)
def _get_global_rank(process: Any) -> int:
    rank: int = _object(process).target.global_rank()
    return rank


@_hands_over("mqs_get_image", failure=ffi.NULL)
def _get_image(process: Any) -> Any:
    return _object(process).image.c


@_answers_code("mqs_fetch_data")
def _fetch_data(process: Any, address: int, size: int, data: Any) -> bool:
    ffi.memmove(data, _object(process).target.fetch(address, size), size)
    return True


@_callback("mqs_target_to_host")
def _target_to_host(process: Any, data: Any, out: Any, size: int) -> None:
    ffi.memmove(out, _object(process).target.to_host(ffi.buffer(data, size)[:]), size)


# ---------------------------------------------------------------- the tables


def _table(struct: str) -> Any:
    """Return a struct of the interface with a callback for each of its members."""
    members = (member for member, _ in ffi.typeof(struct).fields)
    return ffi.new(f"{struct} *", {member: _made[member.removesuffix("_fp")] for member in members})


BASIC_CALLBACKS = _table("mqs_basic_callbacks")
IMAGE_CALLBACKS = _table("mqs_image_callbacks")
PROCESS_CALLBACKS = _table("mqs_process_callbacks")
