"""From one product to the next while the line runs: warm models, and swaps between frames."""
