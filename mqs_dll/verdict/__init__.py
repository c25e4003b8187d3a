"""From what was read of a job to what is wrong with it: who waits for whom, and why.

Everything here is a function of records: no process is touched, and a saved job gets the same verdict on any
machine.
"""
