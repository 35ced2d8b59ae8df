"""Sinks for results: events, pictures, video."""
