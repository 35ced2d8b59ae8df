"""A picture to the model's input and back: decode, locate, crop, resize, ignore, tile."""
