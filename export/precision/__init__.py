"""Graphs in fewer bits: how they are written, and which layers are spared."""
