"""What both sides share."""
