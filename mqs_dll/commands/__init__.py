"""The command ``mqs``, a module for each subcommand with its arguments and ``run``, and what they share.

They compose the debugger side and the library side.

- ``cli``: the one place that turns errors into sentences and exit codes; start reading here
- ``welcome``: what ``mqs`` alone prints
- ``api``: the Python interface, whose names ``mqs_dll`` offers
- ``show``: one process
- ``job``: a whole job and its verdict
- ``run``: starts a job, and watches it
- ``pytest_plugin``: does so for jobs that tests start
- ``watch``: a job that runs, sample after sample
- ``diff``: what changed between two saved jobs
- ``doctor``: what libmqs knows of an MPI
- ``calibrate``: learns the layouts of an MPI
- ``demo``: a job that hangs; ``demo_rank``: one rank of it
- ``agent``: what reads ranks on another node; ``nodes``: which nodes, and how they are reached
- ``gdb_init``: the line that gives gdb its commands
- ``which_library``: what reads a process
- ``times``: numbers and times on the command line, and ``--limit``, for several subcommands
"""
