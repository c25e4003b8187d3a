"""Open MPI's own library for the same interface, as Debian ships it, and the types that it asks a debugger for.

Debian's Open MPI has no debug information. What the library wants to know of it is here: offsets that libmqs's profile
of that release has, and by hand those of members that libmqs doesn't read. Source: ompi/debuggers/ompi_common_dll.c
and the headers of 4.1.4.
"""

from __future__ import annotations

import json
from pathlib import Path

from mqs_dll.library.layouts.profiles import FOLDER

LIBRARY = Path("/usr/lib/x86_64-linux-gnu/openmpi/lib/openmpi3/libompi_dbg_msgq.so")

BY_HAND = {
    "opal_list_item_t": {},
    "opal_free_list_t": {"fl_max_to_alloc": 80, "fl_mpool": 152},
    "opal_hash_table_t": {"ht_table": 16, "ht_size": 40, "ht_mask": 0},
    "opal_pointer_array_t": {"lowest_free": 80},
    "ompi_request_t": {"req_type": 56, "req_f_to_c_index": 104},
    "mca_pml_base_request_t": {"req_proc": 480},
    "ompi_communicator_t": {"c_keyhash": 272, "c_topo": 288, "c_f_to_c_index": 296},
    "mca_topo_base_module_t": {"mtc": 0, "reorder": 8},
    "mca_topo_base_comm_cart_2_2_0_t": {"ndims": 0, "dims": 8, "periods": 16, "coords": 24},
    "mca_topo_base_comm_graph_2_2_0_t": {"nnodes": 0, "index": 8, "edges": 16},
    "mca_topo_base_comm_dist_graph_2_2_0_t": {
        "in": 0,
        "inw": 8,
        "out": 16,
        "outw": 24,
        "indegree": 32,
        "outdegree": 36,
        "weighted": 40,
    },
}
"""Members that the profile has not. Nothing in the benchmark's jobs has a topology: its structs need only be there."""


def write_types(path: Path) -> None:
    """Write the table for the C host's ``--types``."""
    structs = json.loads((Path(FOLDER) / "openmpi-4.1-x86_64.json").read_text())["structs"]
    lines = []
    for name in {**structs, **BY_HAND}:
        known = structs.get(name, {"size": None, "members": {}})
        lines.append(f"{name} {known['size'] or 8}")
        lines += [
            f"{name}.{member} {offset}" for member, offset in {**known["members"], **BY_HAND.get(name, {})}.items()
        ]
    path.write_text("\n".join(lines) + "\n")
