"""One line on a run, for people who watch the log."""

from edgeseg.runtime.records import PipelineSnapshot


def status_line(snapshot: PipelineSnapshot) -> str:
    """Rates, drops, end-to-end latency, verdicts and what is wrong."""
    sources = snapshot.sources
    dropped = sum(sum(source.dropped.values()) for source in sources)
    bad = sum(
        count
        for source in sources
        for verdict, count in source.verdicts.items()
        if verdict != "good"
    )
    total = snapshot.stages["end_to_end"]
    parts = [
        f"{snapshot.uptime_s:.0f} s",
        f"in {snapshot.fps_in:.1f}/s",
        f"out {snapshot.fps_out:.1f}/s",
        f"dropped {dropped}",
        f"end-to-end p50 {total.p50:.1f} p95 {total.p95:.1f} p99 {total.p99:.1f} ms",
        f"not good {bad} of {total.count}",
    ]
    lost = [source.name for source in sources if not source.connected and not source.ended]
    if lost:
        parts.append(f"LOST {', '.join(lost)}")
    if any(source.alarm for source in sources):
        parts.append("ALARM")
    if snapshot.errors:
        counts = ", ".join(f"{name} {count}" for name, count in sorted(snapshot.errors.items()))
        parts.append(f"errors: {counts}")
    return "  ".join(parts)
