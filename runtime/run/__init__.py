"""From settings to a running stream: its model or recipe, its station, its report."""
