"""What a default is chosen by: real and planted defects, other parts, the promise."""
