"""What was read of a process or of a job, and a job's verdict, for people and for machines.

- ``words``: what a rank does, its tag and how sure that is, in all reports; ``names``: what ranks are called in them
- ``text``: a job and its verdict; ``process_text``: one process; ``diff_text``: what differs between two jobs
- ``watch_view``: a job while it runs, and what is pending in its ranks; ``listing``: the jobs there are
- ``terminal``: the console, and what texts are made of; ``progress``: how far a long sample is
- ``fields``: records in terms of JSON; ``json``: a job and its verdict; ``process_json``: one process;
  ``diff_json``: what differs between two jobs; a module for each schema, and the last two need no verdict
- ``flame``: its call tree for flame graphs; ``call_words``: what all reports of that tree say
- ``csv``: a job for spreadsheets; ``ci``: its verdict for what runs tests
- ``picture``: what to draw of a job; ``groups``: which ranks share a node of it
- ``dot``: the picture in Graphviz's language
- ``layout``: where its boxes and arrows go; ``drawing``: it in SVG; ``svg``: that as a document
- ``html``: the page for browsers; ``tables``: its tables; ``page_tree``: its call tree; ``page_data``: what its script
  filters by
"""
