"""How long one frame takes."""
