"""MPICH and its derivatives, mostly in memory made for the purpose."""
