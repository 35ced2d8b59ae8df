"""Model files as candidates for timing, and their timing as units of work."""

import importlib.util
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from edgeseg.base.computer import processor_name
from edgeseg.base.errors import RuntimeFailure, UsageError
from edgeseg.base.files import file_sha256
from edgeseg.base.progress import Note, Progress, silent
from edgeseg.bench.harness.machine import CoreWatch, disturbance
from edgeseg.bench.harness.units import Result, Unit, UnitResults
from edgeseg.bench.latency.cold_start import cold_start
from edgeseg.bench.latency.turns import LatencyCandidate, Schedule, measure_latency
from edgeseg.runtime.backends.session_options import SessionOptions

SPIN = {True: "yes", False: "no", None: None}


def candidates_of(models: Sequence[Path], backends: Sequence[str]) -> list[LatencyCandidate]:
    """Pair every model with every backend that can run it; equal names get their folder."""
    if not models:
        raise UsageError("no models to time; give .onnx files, OpenVINO .xml or .plan files")
    for path in models:
        if not path.is_file():
            raise UsageError(f"{path}: no such model; expected .onnx, OpenVINO's .xml or a .plan")
    stems = [path.stem for path in models]
    titles = [
        f"{path.parent.name}/{path.stem}" if stems.count(path.stem) > 1 else path.stem
        for path in models
    ]
    candidates = []
    for path, title in zip(models, titles, strict=True):
        if path.suffix == ".onnx":
            candidates += [
                LatencyCandidate(name=title, path=path, backend=backend) for backend in backends
            ]
        else:
            backend = "openvino" if path.suffix == ".xml" else "tensorrt"
            candidates.append(LatencyCandidate(name=title, path=path, backend=backend))
    return candidates


def timing_units(
    candidates: Sequence[LatencyCandidate],
    *,
    schedule: Schedule,
    options: SessionOptions,
    size_hw: tuple[int, int],
    progress: Progress = silent,
    cold_starts: bool = True,
) -> list[Unit]:
    """Make one unit for the interleaved rounds, and one per candidate for its cold start."""
    common = {
        "machine": processor_name(),
        "threads": options.thread_count,
        "spin": options.spin,
        "size_hw": list(size_hw),
    }
    files = {item.key: file_sha256(item.path) for item in candidates}

    def rounds() -> dict[str, Any]:
        with CoreWatch() as cores:
            timings = measure_latency(
                candidates, schedule=schedule, options=options, size_hw=size_hw, progress=progress
            )
        return {
            "timings": [timing.to_dict(timings[0]) for timing in timings],
            "cores": {"others": cores.others, "stolen": cores.stolen},
        }

    def cold_start_unit(item: LatencyCandidate) -> Unit:
        start = partial(cold_start, backend=item.backend, options=options, size_hw=size_hw)
        return Unit(
            name=f"cold start of {item.key}",
            settings=common | {"file": files[item.key], "backend": item.backend},
            run=lambda: dict(start(item.path)),
            weight=3.0,
        )

    whole = Unit(
        name="rounds",
        settings=common
        | {"files": files, "schedule": asdict(schedule), "result": ["timings", "cores"]},
        run=rounds,
        weight=len(candidates) * schedule.rounds / 10,
    )
    return [whole, *map(cold_start_unit, candidates if cold_starts else ())]


def timings_of(done: UnitResults) -> list[Result]:
    """Timings of every candidate; empty where nothing was timed."""
    timings: list[Result] = done.results.get("rounds", {}).get("timings", [])
    return timings


def timing_notes(done: UnitResults, *, note: Note) -> list[str]:
    """Say at once what disturbed the rounds, and return it for the report."""
    if "rounds" not in done.results:
        return []
    warning = disturbance(**done.results["rounds"]["cores"])
    if warning is None:
        return []
    note(warning)
    return [f"While timing, {warning}."]


def timing_facts(timed: UnitResults, *others: UnitResults) -> dict[str, Any]:
    """Facts of a report: cores taken while timing, commits, and seconds of all measurements."""
    parts = (timed, *others)
    taken = {"cores_taken": timed.results["rounds"]["cores"]} if "rounds" in timed.results else {}
    return taken | {
        "commits": sorted({commit for part in parts for commit in part.commits}),
        "work_seconds": sum(part.seconds for part in parts),
    }


def runnable(backends: Sequence[str]) -> list[str]:
    """List the backends; `auto` is ONNX Runtime, and OpenVINO and CUDA where installed."""
    if "auto" not in backends:
        return list(dict.fromkeys(backends))
    installed = []
    if importlib.util.find_spec("onnxruntime") is not None:
        import onnxruntime

        installed = ["cpu"]
        installed += ["cuda"] * ("CUDAExecutionProvider" in onnxruntime.get_available_providers())
    if importlib.util.find_spec("openvino") is not None:
        installed.append("openvino")
    if not installed:
        raise RuntimeFailure("no backend is installed; run: pip install 'edgeseg[cpu]'")
    return installed
