"""One trigger, one result: the state of an inspection station and the records it speaks in."""
