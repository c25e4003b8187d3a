"""The provider sm2: util_srx matches; how it keeps its sends is not known.

A module of its own, as each provider has.

Source: prov/sm2/src/sm2.h of 1.22.0 and 2.5.1.
"""

from __future__ import annotations

from mqs_dll.library.fabric.ofi.srx import SharedReceives, WithSrx
from mqs_dll.library.layouts.view import pointer


class Sm2Endpoint(WithSrx):
    """sm2's endpoint."""

    struct = "sm2_ep"
    srx: int = pointer()


class Sm2(SharedReceives):
    """An endpoint of sm2, whose sends are not known."""

    provider = "sm2"
    view = Sm2Endpoint
