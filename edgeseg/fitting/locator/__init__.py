"""What a fit learns of where parts lie, from good images alone."""
