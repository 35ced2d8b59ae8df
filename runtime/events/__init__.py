"""What happens in a run, as values: results, codes that a PLC reads, and who is told of them."""
