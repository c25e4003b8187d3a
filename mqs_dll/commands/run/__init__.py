"""``mqs run``: stands in front of a launcher, and is there when the job hangs.

- ``command``: its arguments
- ``loop``: waits for signals, for children, and for when to look; start reading here
- ``started``: the command, whose signals, terminal and exit code are passed on as they are
- ``everybody``: whether a signal was sent to us alone, or to the command, too
- ``jobs``: which jobs the command has started, and whose turn it is
- ``watcher``: watches the ranks of one, and has them sampled
- ``pace``: when to sample
- ``sampling``: one sample, taken by a process of its own
- ``reports``: what is said and saved
- ``other_nodes``: what is known of the ranks on other nodes; ``comparing``: the process that has agents there
- ``until_stuck``: watches a job that runs already, for ``mqs watch --until-stuck``
"""
