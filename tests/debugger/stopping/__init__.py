"""Stopping processes, and letting them go."""
