"""From a source's text to captured frames."""
