"""`edgeseg demo`: the first afternoon in one command, and the page about it."""
