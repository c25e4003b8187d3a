"""Open MPI, in memory made for the purpose."""
