"""Other people's detectors beside ours."""
