"""Is the station still what was approved? Stored pictures, and a master part in the camera."""
