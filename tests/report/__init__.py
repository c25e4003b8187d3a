"""What is printed, drawn and written."""
