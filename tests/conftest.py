"""Fixtures for tests that read running MPI jobs, and the order and the processes in which those tests run."""

from __future__ import annotations

import gc
import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mqs_dll.commands import pytest_plugin
from mqs_dll.debugger.live import LiveProcess
from mqs_dll.library.session import Library, ProcessSession
from tests.support.jobs import Compiler
from tests.support.matrix import Matrix
from tests.support.mpis import find_mpis, mpis_inside
from tests.support.nodes import Nodes
from tests.support.scenes import Scene, Stage, title
from tests.support.slurm import Slurm
from tests.support.tampered import Tampered
from tests.support.workers import WorkerResult, Workers

LEFT_OUT = pytest.StashKey[bool]()
"""Set when the user chose some of the tests."""

WORKERS = pytest.StashKey[Workers]()
MATRIX = pytest.StashKey[Matrix]()

MPI = "mpi"
"""The marker of tests that start MPI processes."""
STARTERS = {"compiler", "nodes", "kept", "learnt", "blocked", "demo_environment"}
"""Fixtures that start MPI processes, or make the programs that do: what uses them has the marker mpi by itself."""

GUARD = 120.0
"""Seconds after which the job of a test is judged by our own plugin, which ends what is proved to be stuck."""
STAYING = STARTERS - {"learnt", "demo_environment"}
"""Those whose programs stay in their state until a test ends them, many of them stuck: they are judged later."""
LATER = pytest.mark.mqs_after("10m")

AFTER_ALL = "after_all"
"""The marker, and the group, of tests that wait for what the other processes saw, and so not for each other."""

LONG = {"test_calibrate", "test_wheel"}
"""Files whose tests take so long that none of them may be the last."""

SLOW = "slow"
"""The marker of tests that take seconds although they start no MPI process."""

ALONE = "alone"
"""The marker, and the group, of tests that run while no other does."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of this test suite."""
    parser.addoption("--write-matrix", action="store_true", help="write docs/support-matrix.md from what this run saw")


def pytest_configure(config: pytest.Config) -> None:
    """Declare the markers of this test suite."""
    # A shell starts background jobs with these ignored, and children inherit that: neither Ctrl-C nor cores would come.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)
    gc.set_threshold(50_000, 20, 20)  # a fifth of what the tests of records take would go to the search for garbage
    config.addinivalue_line("markers", f"{AFTER_ALL}: looks at what all other tests of the session saw")
    config.addinivalue_line(
        "markers", f"{MPI}: starts MPI processes; conftest.py gives it to all that use a fixture which does"
    )
    config.addinivalue_line(
        "markers", "root: becomes another user, chooses numbers of processes, or makes a Debian, as only root can"
    )
    config.addinivalue_line("markers", f"{SLOW}: builds, emulates, follows many programs, or searches for seconds")
    config.addinivalue_line("markers", f"{ALONE}: measures times, so that no other test may run beside it")
    pytest_plugin.declare(config)  # it may be that it isn't installed, or not loaded
    config.stash[WORKERS] = Workers(config)
    config.stash[MATRIX] = Matrix([*find_mpis(), *mpis_inside()])


@pytest.hookimpl(specname="pytest_configure", trylast=True)
def pytest_configure_guard(config: pytest.Config) -> None:
    """Turn our plugin for pytest on, unless somebody has by --mqs."""
    if not config.pluginmanager.has_plugin(pytest_plugin.NAME):
        config.pluginmanager.register(pytest_plugin.Plugin(GUARD), pytest_plugin.NAME)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a worker of pytest-xdist which folder all of them share."""
    Workers.tell_where(node.workerinput, node.config.stash[WORKERS].folder)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Let pytest-xdist keep the tests of a group together, unless another way was asked for."""
    return config.stash[WORKERS].scheduler(config, log) if config.option.dist == "load" else None


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Leave behind what this process's tests have seen."""
    session.config.stash[WORKERS].leave(WorkerResult(session.testsfailed, session.config.stash[MATRIX].seen))


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove what was shared."""
    config.stash[WORKERS].close()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the tests of one scene behind each other, long ones first, and those that read what all others saw last.

    Tests that share a scene, or what a fixture of their module makes, are a group: one process runs all of them.
    """
    groups: dict[str, str] = {}
    together: dict[str, int] = {}
    for index, item in enumerate(items):
        if STARTERS.intersection(fixtures := getattr(item, "fixturenames", ())):
            item.add_marker(MPI)
        if STAYING.intersection(fixtures):
            item.add_marker(LATER)
        groups[item.nodeid] = group_of(item) or item.nodeid
        together.setdefault(groups[item.nodeid], index)
    items.sort(
        key=lambda item: (
            item.get_closest_marker(AFTER_ALL) is not None,
            item.path.stem not in LONG,
            together[groups[item.nodeid]],
        )
    )
    config.stash[WORKERS].keep(groups)


def group_of(item: pytest.Item) -> str | None:
    """Return a name for what a test shares with others, None for one that can run anywhere at any time."""
    for marker in (ALONE, AFTER_ALL):
        if item.get_closest_marker(marker) is not None:
            return marker
    if not isinstance(item, pytest.Function):
        return None
    fixtures = item._fixtureinfo.name2fixturedefs
    call = getattr(item, "callspec", None)
    if "stage" in item.fixturenames and call is not None:
        return title(call.params["scene"])
    shared = [name for name, found in fixtures.items() if found[-1].scope == "module"]
    indices = [str(call.indices[name]) for name in shared if call is not None and name in call.indices]
    return "-".join([item.path.stem, *indices]) if shared else None


def pytest_deselected(items: list[pytest.Item]) -> None:
    """Remember that a part of the tests was left out."""
    items[0].config.stash[LEFT_OUT] = True


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what only root can do."""
    if item.get_closest_marker("root") is not None and os.geteuid() != 0:
        pytest.skip("it takes root")


@pytest.hookimpl(wrapper=True, tryfirst=True)  # to wait for one's turn takes none of the time until a job is judged
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """Run a test beside those of other processes, or alone; one that waits for all others keeps none waiting."""
    if item.get_closest_marker(AFTER_ALL) is not None:
        return (yield)
    alone, goes_on = (each is not None and each.get_closest_marker(ALONE) is not None for each in (item, nextitem))
    with item.config.stash[WORKERS].turn(alone=alone, goes_on=goes_on):
        return (yield)


@pytest.fixture(scope="session", autouse=True)
def environment(workers: Workers) -> Iterator[None]:
    """Keep what is remembered of machine code out of the user's cache; an MPI is followed once for all processes.

    And keep libfabric from what half of a rank's start would go to: for a provider that needs InfiniBand it reads
    through all symbols of the kernel.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(workers.folder / "cache"))
        patch.setenv("FI_PROVIDER", "^verbs")
        yield


@pytest.fixture(scope="session")
def workers(pytestconfig: pytest.Config) -> Workers:
    """Return the processes in which the tests run."""
    return pytestconfig.stash[WORKERS]


@pytest.fixture(scope="session")
def compiler(workers: Workers) -> Compiler:
    """Return what compiles test programs, each once a session."""
    return Compiler(workers.folder / "programs")


@pytest.fixture(scope="session")
def stage(compiler: Compiler) -> Iterator[Stage]:
    """Return where scenes are on; the last one ends with the session."""
    found = Stage(compiler)
    yield found
    found.close()


@pytest.fixture(scope="session")
def nodes() -> Iterator[Nodes]:
    """Return three machines, which are namespaces of this one."""
    with tempfile.TemporaryDirectory(prefix="mqs-nodes-", ignore_cleanup_errors=True) as name:
        found = Nodes(Path(name))
        try:
            yield found
        finally:
            found.close()


@pytest.fixture(scope="module")
def slurm(nodes: Nodes) -> Slurm:
    """Return Slurm on these."""
    return Slurm(nodes)


@pytest.fixture
def scene(request: pytest.FixtureRequest, stage: Stage) -> Scene:
    """Return a running job in its known state, the same for all tests that name the same one."""
    return stage.scene(request.param)


@pytest.fixture
def target(scene: Scene) -> Iterator[Tampered]:
    """Return rank 0 of a scene, its memory ready to be tampered with; the process itself doesn't notice."""
    with LiveProcess(scene.truths[0].pid) as process:
        yield Tampered(process)


@pytest.fixture
def session(target: Tampered) -> ProcessSession:
    """Return a session that has seen that rank in good order."""
    process = Library().setup_image(target.image).setup_process(target)
    process.has_queues()
    return process


@pytest.fixture(scope="session")
def matrix(pytestconfig: pytest.Config) -> Matrix:
    """Return the support matrix that the tests of this process fill."""
    return pytestconfig.stash[MATRIX]
