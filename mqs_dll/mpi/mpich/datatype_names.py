"""Names of the predefined datatypes, by the last byte of their handles, the same from 3.4 to 5.0.

Source: src/mpi/datatype/typeutil.c of 3.4.3 to 5.0.1 (the table of predefined datatypes).
"""

from __future__ import annotations

BY_INDEX = {
    0x01: b"MPI_CHAR",
    0x02: b"MPI_UNSIGNED_CHAR",
    0x03: b"MPI_SHORT",
    0x04: b"MPI_UNSIGNED_SHORT",
    0x05: b"MPI_INT",
    0x06: b"MPI_UNSIGNED",
    0x07: b"MPI_LONG",
    0x08: b"MPI_UNSIGNED_LONG",
    0x09: b"MPI_LONG_LONG_INT",
    0x0A: b"MPI_FLOAT",
    0x0B: b"MPI_DOUBLE",
    0x0C: b"MPI_LONG_DOUBLE",
    0x0D: b"MPI_BYTE",
    0x0E: b"MPI_WCHAR",
    0x0F: b"MPI_PACKED",
    0x10: b"MPI_LB",
    0x11: b"MPI_UB",
    0x16: b"MPI_2INT",
    0x18: b"MPI_SIGNED_CHAR",
    0x19: b"MPI_UNSIGNED_LONG_LONG",
    0x1A: b"MPI_CHARACTER",
    0x1B: b"MPI_INTEGER",
    0x1C: b"MPI_REAL",
    0x1D: b"MPI_LOGICAL",
    0x1E: b"MPI_COMPLEX",
    0x1F: b"MPI_DOUBLE_PRECISION",
    0x20: b"MPI_2INTEGER",
    0x21: b"MPI_2REAL",
    0x22: b"MPI_DOUBLE_COMPLEX",
    0x23: b"MPI_2DOUBLE_PRECISION",
    0x24: b"MPI_2COMPLEX",
    0x25: b"MPI_2DOUBLE_COMPLEX",
    0x26: b"MPI_REAL2",
    0x27: b"MPI_REAL4",
    0x28: b"MPI_COMPLEX8",
    0x29: b"MPI_REAL8",
    0x2A: b"MPI_COMPLEX16",
    0x2B: b"MPI_REAL16",
    0x2C: b"MPI_COMPLEX32",
    0x2D: b"MPI_INTEGER1",
    0x2E: b"MPI_COMPLEX4",
    0x2F: b"MPI_INTEGER2",
    0x30: b"MPI_INTEGER4",
    0x31: b"MPI_INTEGER8",
    0x32: b"MPI_INTEGER16",
    0x33: b"MPI_CXX_BOOL",
    0x34: b"MPI_CXX_FLOAT_COMPLEX",
    0x35: b"MPI_CXX_DOUBLE_COMPLEX",
    0x36: b"MPI_CXX_LONG_DOUBLE_COMPLEX",
    0x37: b"MPI_INT8_T",
    0x38: b"MPI_INT16_T",
    0x39: b"MPI_INT32_T",
    0x3A: b"MPI_INT64_T",
    0x3B: b"MPI_UINT8_T",
    0x3C: b"MPI_UINT16_T",
    0x3D: b"MPI_UINT32_T",
    0x3E: b"MPI_UINT64_T",
    0x3F: b"MPI_C_BOOL",
    0x40: b"MPI_C_FLOAT_COMPLEX",
    0x41: b"MPI_C_DOUBLE_COMPLEX",
    0x42: b"MPI_C_LONG_DOUBLE_COMPLEX",
    0x43: b"MPI_AINT",
    0x44: b"MPI_OFFSET",
    0x45: b"MPI_COUNT",
    0x46: b"MPIX_C_FLOAT16",
    0x47: b"MPI_LOGICAL1",
    0x48: b"MPI_LOGICAL2",
    0x49: b"MPI_LOGICAL4",
    0x4A: b"MPI_LOGICAL8",
    0x4B: b"MPI_LOGICAL16",
    0x4C: b"MPIX_BFLOAT16",
}

PAIRS = {
    0x8C000000: b"MPI_FLOAT_INT",
    0x8C000001: b"MPI_DOUBLE_INT",
    0x8C000002: b"MPI_LONG_INT",
    0x8C000003: b"MPI_SHORT_INT",
    0x8C000004: b"MPI_LONG_DOUBLE_INT",
}
"""Predefined datatypes that are objects; their names are put there only when somebody asks for them."""


def name_of(handle: int) -> bytes:
    """Return the name of a predefined datatype; MPI_BYTE for the library's own form of it, which has no index."""
    return BY_INDEX.get(handle & 0xFF, b"MPI_BYTE" if handle >> 8 & 0xFF == 1 else b"")
