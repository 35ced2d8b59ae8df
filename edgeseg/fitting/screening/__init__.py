"""Screening of good images for some that do not belong there."""
