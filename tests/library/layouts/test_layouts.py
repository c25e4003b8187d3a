"""The selection of layouts on a live process: the debugger's types first, then profiles, then a plain error."""

from __future__ import annotations

import pytest

from mqs_dll.contract.errors import LayoutError
from mqs_dll.library.layouts.layout import DEBUG_INFORMATION, StructLayout
from mqs_dll.library.layouts.profiles import shipped
from mqs_dll.library.layouts.view import wanted_members
from mqs_dll.library.mpi.openmpi import views
from mqs_dll.library.session import Library, ProcessSession
from tests.support.mpis import OB1, open_mpis
from tests.support.scenes import DOZEN, scenes
from tests.support.tampered import Tampered
from tests.support.targets import WithTypes

STRUCTS = wanted_members(views.ALL)


pytestmark = scenes([(open_mpis()[0], OB1, DOZEN)])


@pytest.fixture
def types(target: Tampered) -> dict[str, StructLayout]:
    """Return the true layout of every struct of this process."""
    queues = Library().setup_image(target.image).setup_process(target)
    profile = queues.has_queues().rpartition("profile ")[2]
    return {
        struct.name: struct
        for shipped_profile in shipped("openmpi")
        for struct in shipped_profile.layouts
        if shipped_profile.name == profile
    }


def _attach(target: Tampered, image: WithTypes) -> ProcessSession:
    queues = Library().setup_image(image).setup_process(target)
    queues.has_queues()
    return queues


@pytest.mark.parametrize("can_tell_sizes", [True, False])
def test_debug_information_comes_first(target: Tampered, types: dict[str, StructLayout], can_tell_sizes: bool) -> None:
    """Where the debugger has all types, no profile is used; it need not be able to tell the size of a type."""
    queues = _attach(target, WithTypes(target.image, types, can_tell_sizes=can_tell_sizes))
    assert {origin.origin for origin in queues.layout_origins()} == {DEBUG_INFORMATION}
    queues.update_communicator_list()
    queues.setup_communicator_iterator()
    first = queues.get_communicator()
    assert first is not None
    assert first.name == b"MPI_COMM_WORLD"


def test_a_profile_fills_in_for_the_structs_without_debug_information(
    target: Tampered, types: dict[str, StructLayout]
) -> None:
    """Distributions install debug information by package: each struct has its own origin, and the report says so."""
    known = {name: struct for name, struct in types.items() if name.startswith("ompi_")}
    origins = {
        origin.struct: origin.origin for origin in _attach(target, WithTypes(target.image, known)).layout_origins()
    }
    assert origins["ompi_communicator_t"] == DEBUG_INFORMATION
    assert origins["mca_pml_ob1_comm_t"].startswith("profile openmpi-")


@pytest.mark.parametrize(
    ("struct", "member"),
    [("ompi_communicator_t", "c_my_rank"), ("ompi_group_t", "grp_my_rank"), ("opal_free_list_t", "fl_frag_class")],
)
def test_debug_information_of_another_build_is_refused(
    target: Tampered, types: dict[str, StructLayout], struct: str, member: str
) -> None:
    """A member that lies elsewhere than the debugger says breaks an invariant: nothing is read with such a layout."""
    true = types[struct]
    types[struct] = StructLayout(struct, true.size, {**true.offsets, member: true.offsets[member] + 8}, true.origin)
    with pytest.raises(LayoutError, match="debug information:"):
        _attach(target, WithTypes(target.image, types))


def test_debug_information_with_another_size_is_refused(target: Tampered, types: dict[str, StructLayout]) -> None:
    """The class descriptors in the process tell the true size of each struct."""
    true = types["ompi_communicator_t"]
    types["ompi_communicator_t"] = StructLayout(true.name, 9999, true.offsets, true.origin)
    with pytest.raises(LayoutError, match="bytes in the process and 9999 there"):
        _attach(target, WithTypes(target.image, types))


def test_the_views_name_every_struct_that_a_profile_has(types: dict[str, StructLayout]) -> None:
    """A profile has what the walkers of pml/ob1 need, member by member."""
    for struct, members in STRUCTS.items():
        optional = {"c_index", "hdr_padding"}
        assert set(members) - optional <= set(types[struct].offsets), struct
