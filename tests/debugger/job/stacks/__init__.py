"""Call stacks, and the arguments of calls."""
