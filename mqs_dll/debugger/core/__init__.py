"""A core file as the target side of the MQS interface.

Rooms by what they know: file (what a core file holds), notes (what it tells in so many words), start (the arguments and
the environment on the stack), libraries (the files that its process had loaded, as far as they are at hand), process
(all together as interface.TargetProcess).
"""
