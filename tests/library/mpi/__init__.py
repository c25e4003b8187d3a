"""What the adapters of all MPIs have in common."""
