"""Maps and scores compared with ground truth."""
