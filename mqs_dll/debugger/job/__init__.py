"""A whole MPI job: finding its ranks, reading them together, their call stacks, and files of what was read.

- ``records``: what was read of a job; here a reader begins; ``shared``: tuples that thousands of them have in common
- ``find``: which jobs there are, and which processes are their ranks
- ``read``: a live job, look after look; ``ranks``: all that are looked at together; ``rank``: one of them;
  ``open_files``: how many files that takes; ``garbage``: what isn't looked for meanwhile
- ``nodes``: ranks on several machines
- ``facts``: what one rank's snapshot, or failure, says of its job
- ``calls_only``: what stands in the place of a library that reads the MPI
- ``locks``: who holds the lock that a thread outside MPI waits for
- ``halt``: what else keeps a rank from running
- ``function_names``: symbols and files of MPIs; ``bindings``: MPI's functions, parameters and constants
- ``stacks``: the call stack of each thread
- ``peek``: whether a rank leaves its MPI call between two looks
- ``cores``: a job from its core files; ``worlds``: ranks that were read one by one put together
- ``saved``: a job in a file; ``codec``: its records in terms of JSON; ``json_room``: how much memory
  those take
- ``compare``: what differs between two jobs; ``changes``: the records of that
"""
