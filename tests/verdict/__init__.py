"""Verdicts, on made-up and on simulated jobs."""
