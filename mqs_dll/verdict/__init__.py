"""From what was read of a job to what is wrong with it: who waits for whom, and why.

Everything here is a function of records: no process is touched, and a saved job gets the same verdict on any
machine.

- ``results``: what a verdict says; ``conclude``: the one call that makes it: start reading here
- ``analysis``: who can never go on, by what each waits for
- ``progress``: who went on between two samples; ``answers``: who may have got what it asks for again and again
- ``communicators``: those of the job, joined from what each rank says of its own
- ``pending``: one operation, with the rank that it waits for
- ``join``: all operations; ``order``: which messages are under way before those that can be seen; ``matching``: which
  receives and messages are about to meet
- ``called``: what the calls that threads are in say of themselves; ``states``: what a rank is in; ``waits``: what it
  waits for there
- ``needs``: what would end one wait; ``collectives``: who has entered a collective call, and who has not
- ``delivery``: which messages match, and did not move
- ``windows``: one-sided calls; ``roots``: which rank each takes for the root of a collective call
- ``evidence``: yes, no, or not known, which all of these give; ``evaluation``: who can go on in the end, under one
  reading of the last
- ``graph``: the fixpoint, components and cycles behind that
- ``findings``: what explains the rest, in sentences
- ``naming``: what these call ranks, communicators and calls
"""
