"""What libmqs knows of the MPI in a library's or a program's file, without a process."""

from __future__ import annotations

import shlex
from pathlib import Path

from mqs_dll.commands.doctor import advice
from mqs_dll.commands.doctor.diagnosis import Diagnosis, FileFacts, Visibility
from mqs_dll.contract.errors import FileError, MqsError, UnknownMpiError
from mqs_dll.debugger.library_file import FileProcess
from mqs_dll.library.session import Library


def diagnose(path: Path) -> Diagnosis:
    """Look at a file.

    Raises:
        FileError: it is no library and no program with an MPI that libmqs knows.
    """
    file = FileProcess(path)
    image = Library().setup_image(file.image)
    try:
        session = image.setup_process(file)
        recognition = session.recognise()
    except UnknownMpiError as error:
        raise FileError(f"{path} holds no MPI that libmqs knows: {str(error).partition(': ')[2]}") from error
    except MqsError as error:
        raise FileError(f"{path} is of an MPI, but damaged or of no known kind: {error}") from error
    refused = tuple(session.refused_profiles())
    mpi = recognition.mpi
    profile = advice.used(recognition.layouts, mpi.profile)
    calibrate = _calibrate(path)
    facts = FileFacts(str(path), not file.has_symbol_table, tuple(file.image.debug_files()))
    return Diagnosis(
        verdict=Visibility.WHOLE if recognition.complete else Visibility.NOTHING,
        file=facts,
        mpi=mpi,
        library=str(path),
        rungs=advice.rungs(recognition.layouts, mpi.profile),
        no_layout=None if recognition.complete else _nothing_fits(facts),
        checks=recognition.checks,
        refusals=recognition.refusals,
        refused_profiles=refused,
        remedies=advice.remedies((), profile, refused, calibrate, no_layout=not recognition.complete),
    )


def _nothing_fits(file: FileFacts) -> str:
    if not file.debug_files:
        return "there is no debug information, and no profile fits"
    return "no profile fits, and debug information here has only a part; a process, with plugins, may have the rest"


def _calibrate(path: Path) -> str:
    """Return the command for the MPI of a file; that of a program that it is part of must be named by its prefix."""
    if ".so" in path.name:
        return f"mqs calibrate {shlex.quote(str(path))}"
    return "mqs calibrate PREFIX, where PREFIX is that of the MPI that the program is linked with"
