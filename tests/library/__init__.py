"""What runs inside libmqs.so, and its C."""
