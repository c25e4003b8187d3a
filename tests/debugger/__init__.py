"""Processes, core files, other libraries, rights."""
