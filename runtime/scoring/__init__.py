"""Score captured frames: the loop, the verdict, the figures of a run."""
