"""Names of functions as their source has them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mqs_dll.debugger.job import demangle
from mqs_dll.debugger.job.demangle import demangled


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        ("_ZN4halo5FieldIdE8exchangeEv", "halo::Field<double>::exchange"),
        ("_Z5solveIiEvT_", "solve<int>"),
        ("_ZZN2ns3runEvENKUlvE_clEv", "ns::run()::{lambda()#1}::operator()"),
        ("_ZN12_GLOBAL__N_14swapEv", "(anonymous namespace)::swap"),
        ("_ZStlsISt11char_traitsIcEERSt13basic_ostreamIcT_ES5_PKc", "std::operator<< <std::char_traits<char> >"),
        ("_ZNKSt8functionIFvvEEclEv", "std::function<void ()>::operator()"),
        ("_ZN1AcvbEv", "A::operator bool"),
        ("_ZN1AltERKS_", "A::operator<"),
        ("_ZN2ns1AD1Ev", "ns::A::~A"),
        ("__halo_MOD_swap_all", "halo::swap_all"),
        ("main", "main"),
        ("_Znonsense", "_Znonsense"),
        ("_Z1f\n", "_Z1f\n"),
        ("", ""),
    ],
)
def test_a_name_has_what_qualifies_it_and_no_parameters(symbol: str, name: str) -> None:
    """Of C++ and of Fortran's modules; any other name stays as it is."""
    assert demangled(symbol) == name


def test_a_name_that_stands_for_gigabytes_stays_as_it_is() -> None:
    """Others are still taken apart afterwards."""
    doubled = "".join(f"S_IS{digit}_S{digit}_E" for digit in "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ")
    bomb = f"_Z1f1AIiiE{doubled}"
    assert demangled(bomb) == bomb
    assert demangled("_Z4donev") == "done"
    assert demangle._apart._child is not None
    limits = Path(f"/proc/{demangle._apart._child.pid}/limits").read_text()
    assert re.search(rf"^Max data size +{demangle._MEMORY} +{demangle._MEMORY} ", limits, re.MULTILINE)
