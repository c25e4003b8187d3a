"""UCX and libfabric."""
