"""What the studies of kills and faults share: commands in forked processes, and their outputs."""
