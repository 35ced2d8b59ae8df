"""What teaching on the device is worth, and what wrong marks cost."""
