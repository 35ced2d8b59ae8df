"""Captured frames to results: the loop, the verdict, the figures of a run."""
