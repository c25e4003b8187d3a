"""The device ch4, as it is since 4.0: messages within a node are active messages over shared memory.

- ``device``: ties all together, and says what the netmod hides; here a reader begins
- ``traffic``: which request is what
- ``receives``: receives in every state
- ``arrivals``: messages that no receive has matched; ``unexpected``: their numbers
- ``sends``: what is known of a send; ``cells``: by the cells of shared memory; ``postponed``: by the queue before them
- ``self_path``: messages on communicators of one process
- ``netmod``: what both netmods have in common; ``tag_codecs``: what their libraries' tags carry
- ``ucx``: the netmod ucx
- ``ofi``: the netmod ofi; ``ofi_contexts``: where its endpoints are
- ``variables``: what is found among variables that have no names
"""

from __future__ import annotations

from mqs_dll.library.mpi.mpich.ch4.device import Ch4

__all__ = ["Ch4"]
