"""Where the members of structs lie, and how we know.

- ``layout``: the members of structs, with the source that told them
- ``profiles``: layouts of MPIs and fabrics without debug information, as checked JSON, and those that libmqs ships
- ``selection``: which layouts are tried in a process, and which are believed
- ``view``: views declare the members that a walker needs; one fetch reads a struct
"""
