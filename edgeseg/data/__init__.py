"""Samples of a folder or of arrays."""
