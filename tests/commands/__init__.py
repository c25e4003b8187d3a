"""The command mqs, and the Python interface."""
