"""From recipe to recipe while triggers come: how long, and is each answered by its own recipe?

    python -m edgeseg.bench.studies.line.changeover --out bench/results/line
    python -m edgeseg.bench.studies.line.changeover --backbone resnet18 --out out
    python -m edgeseg.bench.studies.line.changeover --model a.onnx --model b.onnx --out out

Without models of one's own: three times the small graph of the checkout, or with --backbone small
fits on made-up parts.

A camera of grey frames and a thread that triggers without a pause, through changeovers to a recipe
chosen at random: warm, with all models loaded, and cold, with room for one. Every recipe has a
threshold of its own, so a result shows by which one it was judged. Held for every trigger: one
result, in order, none twice, and an inspection has the threshold of the recipe it names.
"""

import contextlib
import random
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import click
import numpy as np

from edgeseg.bench.harness.machine import CoreWatch, describe
from edgeseg.bench.studies.line.made_models import make_models
from edgeseg.bench.studies.line.rig import Rig, RigCamera
from edgeseg.errors import RuntimeFailure
from edgeseg.files import file_sha256, size_text, write_json, write_text
from edgeseg.options import FILE, FOLDER, note
from edgeseg.progress import ignore
from edgeseg.runtime.backends.model_file import file_metadata
from edgeseg.runtime.backends.session_options import SessionOptions
from edgeseg.runtime.product import Product
from edgeseg.runtime.recipes.changeover import Running
from edgeseg.runtime.recipes.recipe import DecisionSettings, Settings
from edgeseg.runtime.recipes.store import RecipeStore, make_recipe
from edgeseg.runtime.recipes.warm_sessions import WarmSessions
from edgeseg.tables import markdown

MODELS = (Path("tests/kept/0.1.0/part-fp32.onnx"),) * 3  # of the checkout: small, and no download
ALL_MB, ONE_MB = 1e6, 1e-3
_BETWEEN = 10  # results between two changeovers


@dataclass(frozen=True, kw_only=True)
class Phase:
    """What one series of changeovers came to; milliseconds."""

    phase: str
    changes: int
    warm: int  # of them found their model loaded
    ms_p50: float  # from the wish to "job loaded"
    ms_p99: float
    ms_max: float
    own_ms_p50: float  # of it the changeover's own, without the wait for triggers under way
    own_ms_p99: float
    verdict_ms_p50: float  # from the wish to the first verdict by the new recipe
    verdict_ms_p99: float
    triggers: int
    results: int
    inspected: int
    outcomes: dict[str, int]
    wrong_recipe: int
    out_of_order: int

    @property
    def held(self) -> bool:
        """Whether every trigger got one result, in order, by its own recipe."""
        whole = self.triggers == self.results
        return whole and not self.wrong_recipe and not self.out_of_order


def write_recipes(folder: Path, models: tuple[Path, ...]) -> RecipeStore:
    """A recipe for each model, with a threshold that no other has."""
    for index, model in enumerate(models):
        stored = file_metadata(model).threshold.score
        decision = DecisionSettings(threshold=stored * (1 + (index + 1) / 1000))
        settings = Settings(number=index + 1, operating_point=decision)
        make_recipe(folder / f"recipe-{index + 1}", model, settings)
    return RecipeStore(folder=folder)


@contextlib.contextmanager
def running_line(store: RecipeStore, *, limit_mb: float, threads: int) -> Iterator[Rig]:
    """A line that begins with the first recipe."""
    options = SessionOptions(backend="cpu", threads=threads, allow_random_weights=True)
    warm = WarmSessions(options, limit_mb=limit_mb, note=ignore)
    first = store.recipes()[0]
    model = warm.take(first).model
    warm.keep(first.name, model)
    product = Product(
        session=model.session,
        scorer=first.scorer_config(),
        running=Running(recipe=first, model=model),
        store=store,
        warm=warm,
    )
    camera = RigCamera(size_hw=model.session.metadata.size_hw, fps=200.0)
    values = {"trigger": "modbus", "modbus": "0", "trigger_timeout": 30.0, "queue_size": 4}
    rig = Rig(session=model.session, values=values, camera=camera, product=product)
    try:
        with rig:
            rig.wait(lambda: rig.station.current_job.name == first.name, "the first recipe")
            yield rig
    finally:
        warm.close()


@contextlib.contextmanager
def triggering(rig: Rig) -> Iterator[None]:
    """Trigger as soon as the station is ready, and now and then when it is not."""
    stop, chance = threading.Event(), random.Random(1)

    def run() -> None:
        while not stop.wait(0.001):
            if rig.station.words().trigger_ready or chance.random() < 0.2:
                rig.station.trigger(origin="study")

    thread = threading.Thread(target=run, name="study", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        rig.wait(lambda: not rig.station.busy, "the last results")


def change(rig: Rig, number: int) -> tuple[float, float]:
    """Load a recipe; milliseconds until it is there, and until its first verdict."""
    before, begun_s = len(rig.results), time.perf_counter()
    if not rig.station.load_job(number):
        raise RuntimeFailure(f"changeover: there is no recipe {number}")
    rig.wait(lambda: not rig.station.words().job_loading, "the recipe")
    loaded_s = time.perf_counter()
    if rig.station.current_job.number != number:
        raise RuntimeFailure(f"changeover: {rig.station.words().reason}")

    def judged() -> bool:
        return any(
            result.inspection is not None and result.trigger.job.number == number
            for result in rig.results[before:]
        )

    rig.wait(judged, "a verdict by the new recipe")
    first_s = time.perf_counter()
    seen = len(rig.results)
    rig.wait(lambda: len(rig.results) >= seen + _BETWEEN, "results")
    return 1e3 * (loaded_s - begun_s), 1e3 * (first_s - begun_s)


def measure(store: RecipeStore, *, name: str, changes: int, threads: int) -> Phase:
    """One series, warm or cold."""
    limit_mb = ALL_MB if name == "warm" else ONE_MB
    numbers, chance = [recipe.settings.number for recipe in store.recipes()], random.Random(0)
    with running_line(store, limit_mb=limit_mb, threads=threads) as rig, triggering(rig):
        first = (*numbers[1:], numbers[0]) if name == "warm" else ()
        for number in first:
            change(rig, number)  # loads what is not yet
        loads = len(first)
        now, times = numbers[0], []
        for _ in range(changes):
            now = chance.choice([number for number in numbers if number != now])
            times.append(change(rig, now))
        rig.wait(lambda: _changeovers(rig) >= loads + changes, "the last event")
    return _phase(rig, store, name, times)


def _changeovers(rig: Rig) -> int:
    return sum(event["event"] == "changeover" for event in rig.events)


def _phase(rig: Rig, store: RecipeStore, name: str, times: list[tuple[float, float]]) -> Phase:
    thresholds = {
        recipe.settings.number: recipe.settings.operating_point.threshold
        for recipe in store.recipes()
    }
    loaded, judged = np.array(times).T
    events = [event for event in rig.events if event["event"] == "changeover"][-len(times) :]
    own = loaded - 1e3 * np.array([event["waited"] for event in events], np.float64)
    words, results = rig.station.words(), list(rig.results)
    inspected = [result for result in results if result.inspection is not None]
    ids = [result.trigger.trigger_id for result in results]
    return Phase(
        phase=name,
        changes=len(times),
        warm=sum(bool(event["warm"]) for event in events),
        ms_p50=float(np.percentile(loaded, 50)),
        ms_p99=float(np.percentile(loaded, 99)),
        ms_max=float(loaded.max()),
        own_ms_p50=float(np.percentile(own, 50)),
        own_ms_p99=float(np.percentile(own, 99)),
        verdict_ms_p50=float(np.percentile(judged, 50)),
        verdict_ms_p99=float(np.percentile(judged, 99)),
        triggers=words.triggers,
        results=len(results),
        inspected=len(inspected),
        outcomes=dict(
            Counter(
                "inspected" if result.inspection else result.error.name.lower()
                for result in results
            )
        ),
        wrong_recipe=sum(
            result.inspection is not None
            and result.inspection.threshold != thresholds[result.trigger.job.number]
            for result in inspected
        ),
        out_of_order=sum(a >= b for a, b in pairwise(ids)),
    )


_HEAD = (
    *(
        "",
        "p50 ms",
        "p99 ms",
        "max ms",
        "its own p50 ms",
        "p99 ms",
        "first verdict p50 ms",
        "p99 ms",
    ),
    *("triggers", "results", "wrong recipe", "out of order"),
)
_TIMES = (
    *("ms_p50", "ms_p99", "ms_max", "own_ms_p50", "own_ms_p99"),
    *("verdict_ms_p50", "verdict_ms_p99"),
)
_COUNTS = ("triggers", "results", "wrong_recipe", "out_of_order")
_MEANING = """\
From the wish to job loaded; of it its own, without the wait for verdicts of triggers under way (up
to four here, each one inference); and to the first verdict by the new recipe. What triggers were
answered with:
"""


def report_text(facts: dict[str, Any]) -> str:
    """The report as a page."""
    machine, phases = facts["machine"], facts["phases"]
    models = "; ".join(f"{m['name']} {m['size']}, {m['sha256'][:12]}" for m in facts["models"])
    rows = [
        [
            f"{phase['phase']}, {phase['changes']} changes",
            *(f"{phase[key]:.1f}" for key in _TIMES),
            *(str(phase[key]) for key in _COUNTS),
        ]
        for phase in phases
    ]
    outcomes = [
        ", ".join(f"{name} {count}" for name, count in sorted(phase["outcomes"].items()))
        for phase in phases
    ]
    lines = [
        f"# Changeovers under load\n\n`{machine['command']}`\n",
        f"{machine['processor']}, {machine['cores']} cores. Models: {models}.",
        *([f"Disturbed: {facts['disturbed']}."] if facts["disturbed"] else []),
        "",
        *markdown(_HEAD, rows),
        "",
        _MEANING,
        *(f"- {phase['phase']}: {text}" for phase, text in zip(phases, outcomes, strict=True)),
    ]
    return "\n".join(lines) + "\n"


def _described(model: Path) -> dict[str, str]:
    size = size_text(model.stat().st_size)
    return {"name": model.name, "size": size, "sha256": file_sha256(model)}


@click.command()
@click.option("--model", "models", type=FILE, multiple=True, help="Two or more; default: small.")
@click.option("--backbone", "backbones", multiple=True, help="Fit with it; may be repeated.")
@click.option("--random-weights", is_flag=True, help="Of --backbone; times are the same.")
@click.option("--changes", type=click.IntRange(1), default=100, show_default=True)
@click.option("--threads", type=int, default=1, show_default=True)
@click.option("--name", default="changeover", show_default=True, help="Of the report's files.")
@click.option("--out", type=FOLDER, required=True)
def main(
    models: tuple[Path, ...],
    backbones: tuple[str, ...],
    random_weights: bool,
    changes: int,
    threads: int,
    name: str,
    out: Path,
) -> None:
    """Measure changeovers, and fail if a trigger was lost or judged by another recipe."""
    with tempfile.TemporaryDirectory() as folder:
        made = make_models(Path(folder), backbones, random_weights=random_weights, note=note)
        chosen = (*models, *made) or MODELS
        store = write_recipes(Path(folder) / "recipes", chosen)
        with CoreWatch() as watch:
            phases = [
                measure(store, name=each, changes=changes, threads=threads)
                for each in ("warm", "cold")
            ]
        described = [_described(path) for path in dict.fromkeys(chosen)]
    facts = {
        "machine": describe(threads=threads),
        "disturbed": watch.warning,
        "models": described,
        "phases": [asdict(phase) for phase in phases],
    }
    write_json(out / f"{name}.json", facts)
    write_text(out / f"{name}.md", report_text(facts))
    click.echo(report_text(facts))
    note(f"wrote {out / name}.md and .json")
    if not all(phase.held for phase in phases):
        raise SystemExit("a trigger was lost, answered twice, or judged by another recipe")


if __name__ == "__main__":
    main()
