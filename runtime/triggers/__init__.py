"""Choose the frames that are inspected, and answer their triggers."""
