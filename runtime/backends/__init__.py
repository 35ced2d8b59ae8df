"""Backends that run a model file; each one is opened in one way."""
