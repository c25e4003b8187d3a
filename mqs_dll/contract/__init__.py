"""What both sides share: the protocols, records, errors and texts that cross from a library to its debugger.

- ``abi``: result codes, queues, status, the records
- ``interface``: the protocols of both sides
- ``errors``: the error tree; each class has a result code and says what to do next
- ``names``: the MPI standard's rules of names into 64 bytes, and the marks behind them: their writer and their reader
- ``phrases``: the phrases of extra_text that walkers write and verdicts read, writer and reader of each side by side
- ``escape``: bytes and text from a target as text that is safe to print, for whatever prints
- ``elf_format``: the ELF format from bytes to records: headers, notes, symbols; for files, cores and memory
"""
