"""An inspection scene without a camera."""
