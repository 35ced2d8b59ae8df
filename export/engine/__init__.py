"""A graph in, a TensorRT plan out."""
