"""Which frames are inspected: those that somebody triggered, and what becomes of their triggers."""
