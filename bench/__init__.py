"""Latency and accuracy, side by side, in one command each."""
