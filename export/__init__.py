"""From an artefact to one fused graph, and on to an engine."""
