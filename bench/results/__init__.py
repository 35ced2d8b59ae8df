"""Reports that documents name, and what makes tables of them. Not installed."""
