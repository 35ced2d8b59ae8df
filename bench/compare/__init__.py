"""Models side by side: ours by their settings, anomalib's, and the best within a budget."""
