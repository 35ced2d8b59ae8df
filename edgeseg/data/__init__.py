"""A folder or arrays to samples."""
