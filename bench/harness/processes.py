"""What a process said that was started for its own time and memory."""


def last_line(stderr: str) -> str:
    """Return the line in which a failed process says why."""
    lines = stderr.strip().splitlines()
    return lines[-1] if lines else "no message"
