"""The report of a run with peers: ours and theirs in one table, by category, and their times."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from edgeseg.bench.compare.forms import forms_table
from edgeseg.bench.compare.trial import backends_of
from edgeseg.bench.harness.accuracy import (
    ACCURACY_COLUMNS,
    DECISION_COLUMNS,
    LABELS,
    by_category,
    compared,
    decided,
    metrics_in,
)
from edgeseg.bench.harness.figures import dot_of, pareto
from edgeseg.bench.harness.report import Figure, Report
from edgeseg.bench.harness.tabular import Table, column, table_of
from edgeseg.bench.harness.units import FAILED, Done, Result
from edgeseg.bench.latency.report import (
    STREAMED_COLUMNS,
    computed,
    speed_table,
    streamed,
    timing_facts,
)
from edgeseg.bench.peers.by_backend import SHOWN, Means, backend_table
from edgeseg.bench.peers.options import PEERS, PeerOptions
from edgeseg.errors import EdgesegError

OURS = "edgeseg "
TIMED_ONLY = "timed only: untrained (needs the authors' teacher weights)"
NOTES = (
    "Peers: the same images, the same backbone weights (torchvision's ResNet-18) and the same "
    "metric code; their own model classes, engine, defaults and export. Accuracy is of their raw "
    "maps, before clamping; `exported PRO` is of what their ONNX file answers.",
    "fit: seconds from images on disk to a saved model, without the start of Python; anomalib "
    "without its validation pass. peak: of the process that fits. base: of the same process just "
    "before, mostly imports.",
    "Peers are exported for one frame at a time: with anomalib's default of a free batch, "
    "PatchCore comes out with a batch fixed at two.",
    "p50: feed on the host to outputs on the host. Our graphs take the camera's uint8 frame; "
    "peers take float images, and the conversion (prepare ms) is not counted against them.",
)


@dataclass(frozen=True, kw_only=True)
class Row:
    """One model, ours or theirs; what was not measured is None."""

    model: str = field(metadata=column("model"))
    accuracy: dict[str, float | None] = field(metadata=ACCURACY_COLUMNS)
    decided: dict[str, float | None] = field(metadata=DECISION_COLUMNS)  # at our own thresholds
    exported_pro: float | None = field(metadata=column("exported PRO"))
    fit_s: float | None = field(metadata=column("fit s", digits=1, better="low"))
    peak_mb: float | None = field(metadata=column("peak MB", digits=0, better="low"))
    p50_ms: float | None = field(metadata=column("p50 ms", digits=2, better="low"))
    streamed: dict[str, float | None] = field(metadata=STREAMED_COLUMNS)
    megabytes: float | None = field(metadata=column("MB", digits=1, better="low"))
    openvino_ms: float | None = field(metadata=column("p50 ms OpenVINO", digits=2, better="low"))
    streamed_openvino: dict[str, float | None] = field(metadata=STREAMED_COLUMNS)
    computed: dict[str, str | None] = field(metadata=column("{}"))  # of all times of the row
    state: str = field(metadata=column("state"))

    @property
    def ours(self) -> bool:
        """Whether it is one of edgeseg's."""
        return self.model.startswith(OURS)


@dataclass(frozen=True, kw_only=True)
class CategoryRow:
    """The accuracy of one model, category by category and metric by metric."""

    model: str = field(metadata=column("model"))
    accuracy: dict[str, float | None] = field(metadata=column("{}", better="high"))
    decided: dict[str, float | None] = field(metadata=column("{}"))


@dataclass(frozen=True, kw_only=True)
class PeerResults:
    """All results of a run, asked for by what they mean."""

    options: PeerOptions
    categories: tuple[str, ...]
    done: Done
    timed: Done

    def of(self, name: str) -> list[Result]:
        """What is known of a recipe or a peer, category by category."""
        return [self.done.results.get(f"{category} {name}", {}) for category in self.categories]

    def accuracies(self) -> Iterator[tuple[str, list[Result]]]:
        """Every model that was judged, with its accuracy in every category."""
        for recipe in self.options.recipes:
            for precision in recipe.precisions:
                models = _models(self.of(recipe.name), precision)
                yield f"edgeseg {recipe.name} {precision}", models
        for peer in self.options.peers:
            if peer != "efficientad":
                yield PEERS[peer], [result.get("accuracy", {}) for result in self.of(peer)]

    def answered(self) -> dict[str, Means]:
        """Mean accuracy of exported files, by the key of the session that was asked."""
        asked: dict[str, list[Result]] = {}
        for recipe in self.options.recipes:
            for precision in recipe.precisions:
                (backend, *_) = backends_of(precision)
                key = f"edgeseg {recipe.name} {precision} on {backend}"
                asked[key] = _models(self.of(recipe.name), precision)
        for peer in self.options.peers:
            asked[f"{PEERS[peer]} on cpu"] = [r.get("exported", {}) for r in self.of(peer)]
        return {key: {m: _mean(known, m) for m in SHOWN} for key, known in asked.items()}

    @property
    def metrics(self) -> tuple[str, ...]:
        """Keys of what was measured."""
        return metrics_in(each for _, accuracies in self.accuracies() for each in accuracies)

    def rows(self) -> Iterator[Row]:
        """Our models, then the peers."""
        for recipe in self.options.recipes:
            results = self.of(recipe.name)
            for precision in recipe.precisions:
                name = f"edgeseg {recipe.name} {precision}"
                models = _models(results, precision)
                yield self._row(name, results, models, models, state=_state(models))
        for peer in self.options.peers:
            results = self.of(peer)
            state = TIMED_ONLY if peer == "efficientad" else _state(results)
            accuracies = [result.get("accuracy", {}) for result in results]
            exported = [result.get("exported", {}) for result in results]
            yield self._row(PEERS[peer], results, accuracies, exported, state=state)

    def _row(
        self,
        name: str,
        costs: Sequence[Result],
        accuracies: Sequence[Result],
        exported: Sequence[Result],
        *,
        state: str,
    ) -> Row:
        all_timings = self.timed.results["rounds"]["timings"]
        timings = {timing["key"]: timing for timing in all_timings}
        on_cpu, on_openvino = timings.get(f"{name} on cpu"), timings.get(f"{name} on openvino")
        size = on_cpu or on_openvino
        means = {key: _mean(accuracies, key) for key in self.metrics}
        stated = bool(all_timings) and "streamed_ms" in all_timings[0]
        return Row(
            model=name,
            accuracy=compared(means),
            decided=decided(means),
            exported_pro=_mean(exported, "pro"),
            fit_s=_mean(costs, "fit_s"),
            peak_mb=_mean(costs, "peak_mb"),
            p50_ms=None if on_cpu is None else float(on_cpu["host_ms"]["p50"]),
            streamed=_streamed(on_cpu, "") if stated else {},
            megabytes=None if size is None else size["size_bytes"] / 1e6,
            openvino_ms=None if on_openvino is None else float(on_openvino["host_ms"]["p50"]),
            streamed_openvino=_streamed(on_openvino, " OpenVINO") if stated else {},
            computed=computed_in(name, [on_cpu, on_openvino]) if stated else {},
            state=state,
        )


def report_of(
    results: PeerResults, out: Path, *, facts: dict[str, Any], notes: list[str]
) -> Report:
    """Ours and theirs, side by side."""
    rows = list(results.rows())
    anomalib = sorted({r["version"] for r in results.done.results.values() if "version" in r})
    return Report(
        name="peers",
        title="edgeseg beside anomalib, in one run",
        findings=tuple(findings_of(rows)),
        tables=(*accuracy_tables(results, rows), speed_table(results.timed)),
        figures=tuple(_figures(rows, out)),
        facts=facts
        | timing_facts(results.timed, results.done)
        | {"versions": facts["versions"] | {"anomalib": ", ".join(anomalib) or "none"}},
        notes=tuple(notes),
        raw={"accuracy": results.done.results, "timing": results.timed.results},
    )


def _figures(rows: Sequence[Row], out: Path) -> Iterator[Figure]:
    dots = []
    for row in rows:
        group, _, name = row.model.partition(" ")  # edgeseg or anomalib
        dot = dot_of(
            name=name,
            group=group,
            ms=row.p50_ms,
            value=row.accuracy["pro"],
            size_mb=row.megabytes,
        )
        dots += [] if dot is None else [dot]
    if dots:
        pareto(dots, out / "pareto.png", value_name="mean PRO")
        yield Figure(title="PRO against milliseconds", file="pareto.png")


def _streamed(timing: Result | None, suffix: str) -> dict[str, float | None]:
    cells = streamed(timing)
    return {f"{title}{suffix}": value for title, value in cells.items()}


def computed_in(name: str, timings: Sequence[Result | None]) -> dict[str, str | None]:
    """The one arithmetic of a row's times, and whether idle threads spin in all or in none.

    A row that mixes them would set a time of bfloat16 beside an accuracy of float32.
    """
    timed = [computed(timing) for timing in timings if timing is not None]
    stated: dict[str, str | None] = {}
    for key in ("arithmetic", "spin"):
        values = sorted({value for cells in timed if (value := cells[key]) is not None})
        if len(values) > 1:
            raise EdgesegError(
                f"{name}: times of {key} {' and '.join(values)}, expected one in a row; time each "
                "in a row of its own"
            )
        stated[key] = values[0] if values else None
    return stated


def _models(results: Sequence[Result], precision: str) -> list[Result]:
    return [result.get("models", {}).get(precision, {}) for result in results]


def _by_category(
    results: PeerResults, accuracies: Sequence[Result], chosen: Callable[[Result], Result]
) -> dict[str, float | None]:
    """One model's figures of a kind: a column for every category and metric."""
    shown = by_category(results.metrics)
    return {
        f"{category} {LABELS[key]}": value
        for category, accuracy in zip(results.categories, accuracies, strict=True)
        for key, value in chosen({key: accuracy.get(key) for key in shown}).items()
    }


def _mean(results: Sequence[Result], key: str) -> float | None:
    """Over all of them: a mean without the hard ones would flatter whoever failed there."""
    known = [float(result[key]) for result in results if result.get(key) is not None]
    return sum(known) / len(known) if known and len(known) == len(results) else None


def _state(results: Sequence[Result]) -> str:
    """How many categories were measured, and the first thing that went wrong."""
    errors = [result.get("error") or result.get(FAILED) for result in results]
    wrong = [error for error in errors if error]
    if not wrong:
        return "measured"
    steps = [result["step"] for result in results if "step" in result and "error" in result]
    where = f" at {steps[0]}" if steps else ""
    return f"failed on {len(wrong)} of {len(results)}{where}: {wrong[0]}"


def accuracy_tables(results: PeerResults, rows: Sequence[Row]) -> Iterator[Table]:
    """Means over the categories, every backend, and every category."""
    yield table_of(
        "Ours and theirs",
        rows,
        note=f"Means over {', '.join(results.categories)}. p50 in ONNX Runtime on "
        f"{results.options.threads} threads, of the models of {results.categories[0]}; OpenVINO "
        "runs our ONNX file and the peers' own IR.",
    )
    yield backend_table(results.timed.results["rounds"]["timings"], results.answered())
    ours = ((model, known) for model, known in results.accuracies() if model.startswith(OURS))
    yield from forms_table(ours)
    categories = [
        CategoryRow(
            model=model,
            accuracy=_by_category(results, accuracies, compared),
            decided=_by_category(results, accuracies, decided),
        )
        for model, accuracies in results.accuracies()
    ]
    if categories:
        yield table_of("By category", categories)


def findings_of(rows: Sequence[Row]) -> Iterator[str]:
    """Each peer beside the first of ours."""
    timed = [row for row in rows if row.p50_ms is not None]
    base = next((row for row in timed if row.ours), None)
    if base is None:
        return
    for row in timed:
        if row.ours:
            continue
        parts = [f"{row.p50_ms:.1f} ms per frame against {base.p50_ms:.1f} of {base.model}"]
        for key in ("pro", "image_auroc"):
            theirs, ours = row.accuracy[key], base.accuracy[key]
            if theirs is not None and ours is not None:
                parts.append(f"{LABELS[key]} {theirs:.3f} against {ours:.3f}")
        if row.fit_s is not None and base.fit_s is not None:
            parts.append(f"fit {row.fit_s:.0f} s against {base.fit_s:.0f} s")
        yield f"{row.model}: {'; '.join(parts)}."
