"""The first afternoon in one command."""
