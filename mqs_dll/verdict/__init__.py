"""From what was read of a job to what is wrong with it: who waits for whom, and why.

Everything here is a function of records: no process is touched, and a saved job gets the same verdict on any
machine.

- ``conclude``: from a job to a verdict; here a reader begins
- ``results``: what a verdict says, as records
- ``communicators``: those of the job, joined; ``join``: its operations; ``pending``: one of them; ``matching``: which
  are about to meet; ``order``: which messages are under way; ``windows``: its windows
- ``calls``: what MPI's calls block on; ``nonblocking``: who has begun which operation; ``roots``: who is taken for the
  root, by ``trees``; ``trees``: those by which MPIs broadcast and reduce
- ``waits``: what each process waits for; ``states``: what it does; ``needs``: what would end a wait; ``missing``: who
  has not entered a collective call; ``progress``: whether it went on between two looks
- ``analysis``: who can never go on; ``graph``: in linear time; ``parts``: who waits for whom; ``circles``: who is in
  one
- ``findings``: what is wrong, in sentences
- ``naming``: what verdicts call things; ``ranges``: ranks as people write them
"""
