"""One trigger, one result: the state of an inspection station and its records."""
