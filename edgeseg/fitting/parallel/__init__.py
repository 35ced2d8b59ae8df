"""Fits by several processes, with a network between them or without."""
