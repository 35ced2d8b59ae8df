"""Backbones x presets x precisions: accuracy of the exported files against milliseconds."""
