"""One-off studies: run from a checkout, not installed."""
