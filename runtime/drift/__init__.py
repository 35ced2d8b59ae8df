"""Watch for a change of the light, the focus or the camera since the fit."""
