"""A whole MPI job: finding its ranks, stopping and reading them, their call stacks, files of what was read."""
