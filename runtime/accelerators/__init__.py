"""What accelerators take of a graph, where it is cut for them, and the half that stays here."""
