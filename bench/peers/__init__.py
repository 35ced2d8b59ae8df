"""anomalib beside ours: in the same run on the same images, and by its installed size."""
