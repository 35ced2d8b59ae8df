"""What a fit costs: seconds and memory by the number of images, and of its factors over k."""
