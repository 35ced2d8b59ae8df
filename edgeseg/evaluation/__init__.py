"""Maps and scores against the truth, and the threshold."""
