"""Anomaly segmentation for inspection cameras."""

__version__ = "0.1.0"
