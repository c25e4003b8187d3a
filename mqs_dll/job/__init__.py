"""What is known of a whole job: pure data, which debuggers read, verdicts are drawn from, and files hold.

- ``records``: what was read of a job; start reading here; ``shared``: what thousands of them need
- ``snapshot``: what was read of one process; ``facts``: what that, or a failure, says of its job
- ``bindings``: MPI's functions, parameters and constants; ``calls``: what each of these functions blocks on
- ``ranges``: ranks in brackets; ``node_names``: nodes in brackets
- ``found``: the jobs that were found, and their ranks, before anything is read
- ``saved``: a job in a file; ``codec``: its records in terms of JSON; ``json_memory``: how much memory those take;
  ``files``: files that a user asks for
- ``call_tree``: where all ranks are, as one tree
- ``compare``: what differs between two jobs; ``changes``: the records of that
"""
