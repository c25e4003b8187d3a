"""All of it, on live MPI processes."""
