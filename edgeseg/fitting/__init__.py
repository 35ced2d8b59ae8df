"""Fits of good images to an artefact."""
