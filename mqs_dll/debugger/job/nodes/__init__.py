"""The ranks of a job on several machines, its nodes: an agent on each does there what is done on one machine.

- ``wire``: messages between the head, which the user started, and its agents
- ``agent``: the agent's side
- ``own_ranks``: what an agent does with them for `mqs run`
- ``carrier``: starts agents, and carries messages, by ClusterShell
- ``hosts``: names of nodes, checked
- ``agents``: all agents, as the head has them: they find the ranks, and read them together
- ``cores``: core files that lie there, read by agents
- ``merge``: what they found, as one job
- ``slurm``: what Slurm's commands say of its jobs; nothing else runs them
- ``archive``: what an agent needs, for nodes that don't have it
"""
