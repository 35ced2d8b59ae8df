"""Report on a run: a status line now and then, and at its end all it measured.

The report shows latency beside the model's accuracy on its benchmark.
"""

import platform
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from edgeseg.base.computer import processor_name
from edgeseg.base.errors import RuntimeFailure
from edgeseg.base.files import write_json, write_text
from edgeseg.base.messages import Setting
from edgeseg.base.tables import align_columns
from edgeseg.decision.judgement import verdicts_in_words
from edgeseg.decision.metric_registry import stored_metrics
from edgeseg.modelfile.metadata import ModelMetadata
from edgeseg.modelfile.precisions import runs_on
from edgeseg.runtime.backends.session_options import available_cores
from edgeseg.runtime.events.records import PipelineSnapshot
from edgeseg.runtime.scoring.meters import RELATIVE_ERROR

SCHEMA = 1

RunReport = dict[str, Any]  # plain values, for JSON and for `report_text`


def status_line(snapshot: PipelineSnapshot) -> str:
    """Format rates, drops, end-to-end latency, verdicts and errors, for the log."""
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
        parts.append(f"errors: {_counts(snapshot.errors)}")
    return "  ".join(parts)


def _counts(by_name: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(by_name.items()))


def build_report(
    snapshot: PipelineSnapshot,
    metadata: ModelMetadata,
    *,
    drift: dict[int, dict[str, object]],
    failure: Exception | None = None,
    station: Mapping[str, object] | None = None,
) -> RunReport:
    """Collect the report as plain values."""
    return {
        "schema": SCHEMA,
        "written_s": round(time.time(), 3),
        "model": {
            "name": metadata.name,
            "backbone": metadata.backbone.name,
            "precision": metadata.precision,
            "size_hw": list(metadata.size_hw),
            "artefact_sha256": metadata.artefact_sha256,
            "threshold_score": snapshot.threshold_score,
        },
        "backend": snapshot.backend,
        "arithmetic": snapshot.arithmetic,
        "spin": snapshot.spin,
        "machine": _machine(),
        "seconds": round(snapshot.uptime_s, 3),
        "frames": _frames(snapshot),
        "latency_ms": {stage: asdict(summary) for stage, summary in snapshot.stages.items()},
        "latency_relative_error": RELATIVE_ERROR,
        "accuracy": list(metadata.accuracy),
        "sources": [
            {
                **vars(source),
                "dropped": dict(source.dropped),
                "verdicts": dict(source.verdicts),
                "drift": drift.get(index),
            }
            for index, source in enumerate(snapshot.sources)
        ],
        "station": station,
        "errors": dict(snapshot.errors),
        "failure": None if failure is None else str(failure),
    }


def _frames(snapshot: PipelineSnapshot) -> dict[str, object]:
    """Sum counts and rates over all sources and the whole run."""
    frames_in = sum(source.frames_in for source in snapshot.sources)
    scored = sum(source.scored for source in snapshot.sources)
    dropped: Counter[str] = Counter()
    for source in snapshot.sources:
        dropped.update(source.dropped)
    seconds = max(snapshot.uptime_s, 1e-9)
    return {
        "in": frames_in,
        "scored": scored,
        "dropped": dict(dropped),
        "fps_in": round(frames_in / seconds, 3),
        "fps_out": round(scored / seconds, 3),
    }


def _machine() -> dict[str, object]:
    return {
        "processor": processor_name(),
        "cores": available_cores(),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
    }


def report_text(report: RunReport) -> str:
    """Format latency and accuracy as one table."""
    frames, model = report["frames"], report["model"]
    rows: list[tuple[str, ...]] = [("latency, ms", "p50", "p95", "p99", "max")]
    for stage, summary in report["latency_ms"].items():
        numbers = [f"{summary[key]:.2f}" for key in ("p50", "p95", "p99", "max")]
        rows.append((stage.replace("_", " "), *numbers))
    metrics = stored_metrics()
    rows.append(("accuracy on", *(metric.label for metric in metrics)))
    for entry in report["accuracy"]:
        numbers = [_share(entry.get(metric.key)) for metric in metrics]
        images, bad = entry.get("images", "?"), entry.get("anomalies", "?")
        rows.append((f"{entry.get('dataset')} ({images} images, {bad} bad)", *numbers))
    if not report["accuracy"]:
        rows.append(("not stored with the model", *("-" for _ in metrics)))
    columns = max(map(len, rows))
    table = align_columns([(*row, *("" for _ in range(columns - len(row)))) for row in rows])
    causes = _counts(frames["dropped"])
    where = runs_on(report["backend"], arithmetic=report["arithmetic"], spin=report["spin"])
    lines = [
        f"{model['name']} ({model['backbone']}, {model['precision']}, "
        f"{model['size_hw'][1]}x{model['size_hw'][0]}) on {where}",
        *table,
        f"frames: {frames['in']} in = {frames['scored']} scored + "
        f"{sum(frames['dropped'].values())} dropped{f' ({causes})' if causes else ''}",
        f"rates: {frames['fps_in']:.1f} in/s, {frames['fps_out']:.1f} out/s "
        f"over {report['seconds']:.1f} s",
        *_triggers(report["station"]),
        f"errors: {_counts(report['errors']) or 'none'}",
        *_verdicts(report["sources"]),
    ]
    return "\n".join(lines) + "\n"


def _verdicts(sources: list[dict[str, Any]]) -> list[str]:
    """Write the verdicts of all sources, and of each where there are several."""
    total: Counter[str] = Counter()
    for source in sources:
        total.update(source["verdicts"])
    each = [f"verdicts of {one['name']}: {verdicts_in_words(one['verdicts'])}" for one in sources]
    return [*(each if len(each) > 1 else ()), f"verdicts: {verdicts_in_words(total)}"]


def _triggers(station: dict[str, Any] | None) -> list[str]:
    if station is None:
        return []
    outcomes = _counts(station["outcomes"]) or "none"
    return [f"triggers: {station['triggers']}, results: {station['results']} ({outcomes})"]


def _share(value: object) -> str:
    return f"{value:.4f}" if isinstance(value, int | float) else "-"


def write_report(path: Path, report: RunReport) -> list[Path]:
    """Write the JSON under the given name and the text beside it."""
    beside = path.with_suffix(".txt")
    try:
        write_json(path, report)
        write_text(beside, report_text(report))
    except OSError as error:
        raise RuntimeFailure(
            Setting("report", path), f": {error.strerror}; the figures are on standard output"
        ) from None
    return [path, beside]
