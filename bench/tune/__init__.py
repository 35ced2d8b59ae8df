"""`edgeseg tune`: the most accurate model that this computer runs within a budget."""
