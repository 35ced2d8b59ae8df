"""The frame in which defaults are chosen: candidate settings side by side on real categories."""
