"""Good images to an artefact."""
