"""The commands inside gdb."""
