"""Where results go: events, pictures, video."""
