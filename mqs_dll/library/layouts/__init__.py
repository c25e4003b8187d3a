"""Where the members of structs lie, and how we know.

- ``layout``: the members of structs, with the source that told them
- ``profiles``: layouts of MPIs without debug information, as checked JSON; ``profiles/`` has those that are shipped
- ``view``: views declare the members that a walker needs; one fetch reads a struct
"""
