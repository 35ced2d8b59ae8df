"""What a run is told: options, kinds of sinks, triggers and adapters, a station file."""
