"""`edgeseg bench`."""
