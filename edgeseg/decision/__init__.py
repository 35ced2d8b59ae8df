"""A score to a verdict, and how good verdicts are: thresholds, regions, metrics."""
