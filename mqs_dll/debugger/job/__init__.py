"""A whole MPI job: finding its ranks, reading them together, their call stacks, and files of what was read.

- ``find``: which jobs there are, and which processes are their ranks
- ``read``: a live job, sample after sample; start reading here; ``ranks``: all that are read together; ``rank``:
  one of them; ``open_files``: how many files that takes
- ``nodes``: ranks on several machines
- ``calls_only``: what stands in the place of a library that reads the MPI
- ``locks``: who holds the lock that a thread outside MPI waits for
- ``halt``: what else keeps a rank from running: a signal, another debugger, its cgroup
- ``function_names``: symbols and files of MPIs; ``demangle``: names as the source has them
- ``python_reader``: stacks in Python, read in a process apart
- ``one_path``: machine code and Python as one path, with recursion folded
- ``stacks``: the call stack of each thread
- ``footprint``: where the queues of ranks lie in their memory, and whether that has changed
- ``copied``: their memory as it was copied while a rank stood
- ``ending``: ends all processes of a job, with the shared memory that they leave
- ``peek``: whether a rank leaves its MPI call between two samples
- ``cores``: a job from its core files; ``worlds``: ranks that were read one by one put together
"""
