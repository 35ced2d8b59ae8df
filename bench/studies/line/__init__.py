"""A station under load: triggers and results, counted."""
