"""What a run measured, beside what the model scored on its benchmark."""

import os
import platform
import time
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

from edgeseg.contract.metadata import ModelMetadata
from edgeseg.errors import RuntimeFailure
from edgeseg.files import write_json, write_text
from edgeseg.runtime.records import PipelineSnapshot
from edgeseg.runtime.scoring.latency import RELATIVE_ERROR

SCHEMA = 1
_ACCURACY = (
    ("pro", "PRO"),
    ("pixel_auroc", "pixel AUROC"),
    ("image_auroc", "image AUROC"),
    ("f1", "F1"),
)


def build_report(
    snapshot: PipelineSnapshot,
    metadata: ModelMetadata,
    *,
    drift: dict[int, dict[str, object]],
    failure: Exception | None = None,
) -> dict[str, Any]:
    """The report as plain values."""
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
        "errors": dict(snapshot.errors),
        "failure": None if failure is None else str(failure),
    }


def _frames(snapshot: PipelineSnapshot) -> dict[str, Any]:
    """Counts and rates over all sources and the whole run."""
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


def _machine() -> dict[str, Any]:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "processor": _processor(),
        "cores": cores,
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
    }


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def report_text(report: dict[str, Any]) -> str:
    """Latency and accuracy in one table."""
    frames, model = report["frames"], report["model"]
    rows: list[tuple[str, ...]] = [("latency, ms", "p50", "p95", "p99", "max")]
    for stage, summary in report["latency_ms"].items():
        numbers = [f"{summary[key]:.2f}" for key in ("p50", "p95", "p99", "max")]
        rows.append((stage.replace("_", " "), *numbers))
    rows.append(("accuracy on", *(title for _, title in _ACCURACY)))
    for entry in report["accuracy"]:
        numbers = [_share(entry.get(key)) for key, _ in _ACCURACY]
        images, bad = entry.get("images", "?"), entry.get("anomalies", "?")
        rows.append((f"{entry.get('dataset')} ({images} images, {bad} bad)", *numbers))
    if not report["accuracy"]:
        rows.append(("not stored with the model", "-", "-", "-", "-"))
    causes = ", ".join(f"{cause} {count}" for cause, count in sorted(frames["dropped"].items()))
    errors = ", ".join(f"{name} {count}" for name, count in sorted(report["errors"].items()))
    lines = [
        f"{model['name']} ({model['backbone']}, {model['precision']}, "
        f"{model['size_hw'][1]}x{model['size_hw'][0]}) on {report['backend']}",
        *_aligned(rows),
        f"frames: {frames['in']} in = {frames['scored']} scored + "
        f"{sum(frames['dropped'].values())} dropped{f' ({causes})' if causes else ''}",
        f"rates: {frames['fps_in']:.1f} in/s, {frames['fps_out']:.1f} out/s "
        f"over {report['seconds']:.1f} s",
        f"errors: {errors or 'none'}",
    ]
    return "\n".join(lines) + "\n"


def _share(value: object) -> str:
    return f"{value:.4f}" if isinstance(value, int | float) else "-"


def _aligned(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]


def write_report(path: Path, report: dict[str, Any]) -> list[Path]:
    """Write the JSON under the given name and the text beside it."""
    beside = path.with_suffix(".txt")
    try:
        write_json(path, report)
        write_text(beside, report_text(report))
    except OSError as error:
        raise RuntimeFailure(
            f"--report {path}: {error.strerror}; the figures are on standard output"
        ) from None
    return [path, beside]
