"""GigE Vision and USB3 Vision cameras, through the system's libaravis."""
