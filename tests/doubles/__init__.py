"""Stand-ins for what a line has: cameras, brokers, PLCs, browsers, people, libraries of a GPU."""
