"""How long one frame takes: any model file, in turns with all others, and from a cold start."""
