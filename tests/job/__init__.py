"""Data about a job: files, text, differences."""
