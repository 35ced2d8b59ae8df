"""Large pictures, and many processes."""
