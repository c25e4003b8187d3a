"""What mqs calibrate learns."""
