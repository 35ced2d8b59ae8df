"""What workstation and device must agree on: files, pictures, predictions."""
