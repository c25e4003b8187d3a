"""A job and the verdict on it for people and machines: text, JSON, CSV, and the graph as DOT, SVG and HTML."""
