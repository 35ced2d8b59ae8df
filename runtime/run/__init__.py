"""Run a stream from its settings: its model or recipe, its station, its report."""
