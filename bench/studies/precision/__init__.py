"""What fewer bits and other threads cost in accuracy and time."""
