"""A core file as the target side of the MQS interface.

- ``process``: all together as interface.TargetProcess; start reading here
- ``core_file``: the memory that a core file holds, and what is known of its process
- ``notes``: what it states explicitly
- ``start``: the arguments and the environment on the stack
- ``libraries``: the files that its process had loaded, as far as they are at hand
"""
