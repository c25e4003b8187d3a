"""The calls of MPI by what they block on (MPI 4.1; names without PMPI_)."""

from __future__ import annotations

import re
from enum import Enum


class Blocks(Enum):
    """What ends a call."""

    SEND = "its send"
    RECEIVE = "its receive"
    BOTH = "its send and its receive"
    PROBE = "a message that matches"
    ONE = "one request"
    EVERY = "several requests, all of them"
    SOME = "several requests, one of them"
    TOGETHER = "every other process of its communicator, which has to make the same call"
    """A collective call that no process leaves before all have entered it. Not those with counts for each process:
    where a count is 0, nobody waits for that process."""
    ROOTED = "some other processes of its communicator, which have to make the same call"
    """A collective call that a process may leave before others have entered it."""
    NEIGHBORS = "its neighbours, which have to make the same call"
    WINDOW = "what other processes of its window do, or data that moves"
    END = "the end of MPI"
    """MPI_Finalize: who is in it never sends or receives again."""
    POLLS = "nothing: it asks whether something has happened"
    NOTHING = "nothing"
    UNKNOWN = "something that this table doesn't know"


LONG_CALL = 10.0
"""Seconds that a collective call may well last with nobody missing, when it moves much data, or cores are shared: an
MPI_Reduce of 1.6 MB by four ranks took up to 3.5, on two cores with twelve other processes."""

_CALLS = {
    Blocks.SEND: "MPI_Send MPI_Ssend MPI_Rsend",
    Blocks.RECEIVE: "MPI_Recv MPI_Mrecv",
    Blocks.BOTH: "MPI_Sendrecv MPI_Sendrecv_replace",
    Blocks.PROBE: "MPI_Probe MPI_Mprobe",
    Blocks.ONE: "MPI_Wait",
    Blocks.EVERY: "MPI_Waitall",
    Blocks.SOME: "MPI_Waitany MPI_Waitsome",
    Blocks.TOGETHER: (
        "MPI_Barrier MPI_Allgather MPI_Allreduce MPI_Alltoall"
        " MPI_Comm_dup MPI_Comm_dup_with_info MPI_Comm_create MPI_Comm_split MPI_Comm_split_type"
        " MPI_Cart_create MPI_Cart_sub MPI_Graph_create MPI_Dist_graph_create MPI_Dist_graph_create_adjacent"
        " MPI_Win_create MPI_Win_allocate MPI_Win_allocate_shared MPI_Win_create_dynamic MPI_File_open"
    ),
    Blocks.ROOTED: (
        "MPI_Bcast MPI_Allgatherv MPI_Alltoallv MPI_Alltoallw MPI_Gather MPI_Gatherv MPI_Scatter MPI_Scatterv"
        " MPI_Reduce MPI_Reduce_scatter MPI_Reduce_scatter_block MPI_Scan MPI_Exscan MPI_Comm_free"
        " MPI_Comm_disconnect MPI_Comm_spawn MPI_Comm_spawn_multiple MPI_Comm_accept MPI_Comm_connect"
        " MPI_Comm_create_group MPI_Intercomm_create MPI_Intercomm_create_from_groups MPI_Intercomm_merge"
        " MPI_Comm_create_from_group MPI_Win_free MPI_Win_fence MPI_File_close MPI_File_read_all"
        " MPI_File_read_at_all MPI_File_write_all MPI_File_write_at_all MPI_File_read_ordered"
        " MPI_File_write_ordered MPI_File_set_view MPI_File_set_size MPI_File_preallocate MPI_File_sync"
        " MPI_File_read_all_end MPI_File_write_all_end MPI_File_read_at_all_end MPI_File_write_at_all_end"
        " MPI_File_read_ordered_end MPI_File_write_ordered_end MPI_File_read_all_begin MPI_File_write_all_begin"
        " MPI_File_read_at_all_begin MPI_File_write_at_all_begin MPI_File_read_ordered_begin"
        " MPI_File_write_ordered_begin MPI_File_seek_shared MPI_File_set_atomicity MPI_File_set_info"
        " MPI_Comm_set_info MPI_Win_set_info"
    ),
    Blocks.NEIGHBORS: (
        "MPI_Neighbor_allgather MPI_Neighbor_allgatherv MPI_Neighbor_alltoall MPI_Neighbor_alltoallv"
        " MPI_Neighbor_alltoallw"
    ),
    Blocks.END: "MPI_Finalize",
    Blocks.POLLS: (
        "MPI_Test MPI_Testall MPI_Testany MPI_Testsome MPI_Iprobe MPI_Improbe MPI_Request_get_status"
        " MPI_Request_get_status_all MPI_Request_get_status_any MPI_Request_get_status_some MPI_Parrived MPI_Win_test"
    ),
    Blocks.WINDOW: (
        "MPI_Win_lock MPI_Win_lock_all MPI_Win_unlock MPI_Win_unlock_all MPI_Win_flush MPI_Win_flush_all"
        " MPI_Win_flush_local MPI_Win_flush_local_all MPI_Win_start MPI_Win_complete MPI_Win_wait"
        " MPI_Put MPI_Get MPI_Accumulate MPI_Get_accumulate MPI_Fetch_and_op MPI_Compare_and_swap MPI_Rput MPI_Rget"
        " MPI_Raccumulate MPI_Rget_accumulate"
    ),
    Blocks.UNKNOWN: (
        "MPI_Buffer_detach MPI_Buffer_flush"
        " MPI_Comm_flush_buffer MPI_Session_flush_buffer MPI_File_read MPI_File_write MPI_File_read_at"
        " MPI_File_write_at MPI_File_read_shared MPI_File_write_shared MPI_Comm_join MPI_Init MPI_Init_thread"
        " MPI_Session_init MPI_Session_finalize MPI_Abort MPI_Start MPI_Startall MPI_Comm_shrink MPI_Comm_agree"
        " MPIX_Comm_shrink MPIX_Comm_agree"
        " MPI_Comm_detach_buffer MPI_Session_detach_buffer MPI_Lookup_name MPI_Publish_name MPI_Unpublish_name"
    ),
    Blocks.NOTHING: (
        "MPI_Alloc_mem MPI_Bsend MPI_Buffer_attach MPI_Buffer_iflush MPI_Cancel MPI_Cart_coords MPI_Cart_get"
        " MPI_Cart_map MPI_Cart_rank MPI_Cart_shift MPI_Cartdim_get MPI_Close_port MPI_Comm_attach_buffer"
        " MPI_Comm_compare MPI_Comm_group MPI_Comm_idup MPI_Comm_idup_with_info MPI_Comm_iflush_buffer MPI_Comm_rank"
        " MPI_Comm_remote_group MPI_Comm_remote_size MPI_Comm_size MPI_Comm_test_inter MPI_Dims_create"
        " MPI_Dist_graph_neighbors MPI_Dist_graph_neighbors_count MPI_File_delete MPI_File_seek MPI_Finalized"
        " MPI_Free_mem MPI_Graph_get MPI_Graph_map MPI_Graph_neighbors MPI_Graph_neighbors_count MPI_Graphdims_get"
        " MPI_Grequest_complete MPI_Grequest_start MPI_Open_port MPI_Pack MPI_Pcontrol MPI_Pready MPI_Pready_list"
        " MPI_Pready_range MPI_Query_thread MPI_Reduce_local MPI_Register_datarep MPI_Request_free"
        " MPI_Session_attach_buffer MPI_Session_iflush_buffer MPI_Test_cancelled MPI_Topo_test MPI_Unpack"
        " MPI_Win_attach MPI_Win_detach MPI_Win_post MPI_Win_shared_query MPI_Win_sync"
    ),
}
_LOCAL = re.compile(
    r"MPI_(Abi|Add_error|Attr|Errhandler|Error|Get|Group|Info|Keyval|Op|Pack|Remove_error|Status|Type|Unpack)_\w+"
    r"|MPI_(Comm|File|Session|Win)_(call_errhandler|create_errhandler|create_keyval|delete_attr|free_keyval|get_\w+"
    r"|set_attr|set_errhandler|set_name)"
    r"|MPI_I[a-z]\w+|MPI_File_i(read|write)\w*"
    r"|\w+_init"
)
"""Families of calls that return at once: local ones, nonblocking ones, and those that only prepare."""

_POLLED = {
    "MPI_Test": "MPI_Wait",
    "MPI_Request_get_status": "MPI_Wait",
    "MPI_Testall": "MPI_Waitall",
    "MPI_Request_get_status_all": "MPI_Waitall",
    "MPI_Testany": "MPI_Waitany",
    "MPI_Request_get_status_any": "MPI_Waitany",
    "MPI_Testsome": "MPI_Waitsome",
    "MPI_Request_get_status_some": "MPI_Waitsome",
    "MPI_Iprobe": "MPI_Probe",
    "MPI_Improbe": "MPI_Mprobe",
}
"""Calls that only ask, and the one that waits for what they ask for."""

_REDUCTIONS = frozenset({"MPI_Allreduce", "MPI_Reduce", "MPI_Reduce_scatter_block", "MPI_Scan", "MPI_Exscan"})

_BEYOND = frozenset(
    {
        "MPI_Comm_spawn",
        "MPI_Comm_spawn_multiple",
        "MPI_Comm_accept",
        "MPI_Comm_connect",
        "MPI_Comm_create_from_group",
        "MPI_Intercomm_create",
        "MPI_Intercomm_create_from_groups",
    }
)

_BY_NAME = {name: blocks for blocks, names in _CALLS.items() for name in names.split()}

_BY_REQUEST = frozenset({Blocks.ONE, Blocks.EVERY, Blocks.SOME})
COLLECTIVE = frozenset({Blocks.TOGETHER, Blocks.ROOTED, Blocks.NEIGHBORS})


def what_ends(call: str) -> Blocks:
    """Return what a call blocks on; nobody knows it of a call that MPI 4.1 doesn't have.

    The large-count calls of MPI 4 end in "_c" and block like the others.
    """
    name = call.removesuffix("_c")
    return _BY_NAME.get(name) or (Blocks.NOTHING if _LOCAL.fullmatch(name) else Blocks.UNKNOWN)


def polled(call: str) -> Blocks:
    """Return what ends the asking of one who makes a call again and again that only asks; of any other what ends it."""
    return what_ends(_POLLED.get(call.removesuffix("_c"), call))


def known() -> frozenset[str]:
    """Return the names of all calls that block or poll, or may."""
    return frozenset(name for name, blocks in _BY_NAME.items() if blocks is not Blocks.NOTHING)


def names_communicator(call: str) -> bool:
    """Return whether a collective call is given a communicator: others have a window's or a file's, made long ago."""
    made_earlier = call.startswith(("MPI_Win_", "MPI_File_")) and what_ends(call) is not Blocks.TOGETHER
    return not made_earlier


def reaches_beyond(call: str) -> bool:
    """Return whether a collective call needs other processes than those of its communicator."""
    return call.removesuffix("_c") in _BEYOND


def reduces(call: str) -> bool:
    """Return whether a collective call combines what all have, by one operation."""
    return call.removesuffix("_c") in _REDUCTIONS


def takes_requests(blocks: Blocks) -> bool:
    """Return whether a call waits for requests that nonblocking calls made."""
    return blocks in _BY_REQUEST


def may_be_made_by(calls: tuple[str, ...], call: str) -> bool:
    """Return whether an operation, by the calls that may have made it, can be that of a blocking call."""
    return not calls or call.removesuffix("_c") in calls


def may_have_request(calls: tuple[str, ...]) -> bool:
    """Return whether an operation, by the calls that may have made it, can be one that is waited for by request."""
    return not calls or any(
        (call.startswith("MPI_I") and not call.endswith("probe")) or call.endswith("_init") for call in calls
    )
