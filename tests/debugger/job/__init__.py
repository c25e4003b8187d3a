"""Finding and reading the ranks of a job."""
