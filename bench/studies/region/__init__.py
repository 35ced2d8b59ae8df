"""Parts and cameras that move."""
