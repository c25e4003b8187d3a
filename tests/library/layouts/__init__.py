"""Where members lie, and how we know."""
