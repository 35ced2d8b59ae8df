"""Defects planted on good images, with exact masks: a stand-in for the real ones."""
