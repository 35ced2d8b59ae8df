"""Compile a graph into a TensorRT plan."""
