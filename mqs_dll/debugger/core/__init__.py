"""A core file as the target side of the MQS interface.

- ``process``: all together as interface.TargetProcess; here a reader begins
- ``core_file``: the memory that a core file holds, and what is known of its process
- ``notes``: what it tells in so many words
- ``start``: the arguments and the environment on the stack
- ``libraries``: the files that its process had loaded, as far as they are at hand
"""
