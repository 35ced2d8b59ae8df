"""Backbones, presets and precisions side by side."""
