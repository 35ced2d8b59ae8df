"""What a model is on disk: metadata, hashes, signatures, and the one way to replace files."""
