"""Export an artefact as one fused graph, and build an engine from that."""
