"""Images among the good ones that do not belong there."""
