"""What runs a model file: one way to open each backend."""
