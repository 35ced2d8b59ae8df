"""Capture frames from a source, given as text."""
