"""Pixels to distances: backbone, embedding, Gaussians, the one reference forward."""
