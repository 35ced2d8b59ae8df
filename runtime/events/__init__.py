"""Events of a run, as values: results, codes that a PLC reads, and their publisher."""
