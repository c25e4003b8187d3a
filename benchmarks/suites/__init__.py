"""A measure of the verdict: folders of MPI programs with known errors, of which libmqs's authors wrote none."""
