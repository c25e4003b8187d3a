"""What people and machines see of a job and its verdict, and of one process.

- ``text``: a job for people; ``terminal``: where it is printed; ``progress``: how far a long look is
- ``json``: a job for machines; ``csv``: for spreadsheets
- ``picture``: the wait-for graph as something to look at; ``groups``: who is drawn as one node; ``dot``: in the
  language of Graphviz; ``svg``: drawn by it; ``layout``: where boxes and arrows go without it; ``drawing``: drawn so
- ``html``: a job as one page; ``tables``: its tables; ``page_data``: what its script filters
- ``pending``: what is pending in a process, in words
- ``listing``: the jobs of a machine
- ``watch_view``: one frame of ``mqs watch``
- ``diff_text``: what differs between two jobs, for people; ``diff_json``: for machines
- ``process_text``: one process for people; ``process_json``: for machines
"""
