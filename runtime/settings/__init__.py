"""Settings of a run: options, kinds of sinks, triggers and adapters, a station file."""
