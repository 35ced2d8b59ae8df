"""The page of a running stream."""
