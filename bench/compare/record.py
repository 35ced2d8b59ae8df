"""Results of a comparison, as one row for each file in each backend."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from edgeseg.bench.compare.candidates import PEERS, OurModel
from edgeseg.bench.compare.files import REFUSED
from edgeseg.bench.compare.plan import TIMED_ONLY, ComparisonPlan, Graph, peer_unit
from edgeseg.bench.harness.accuracy import (
    ACCURACY_COLUMNS,
    DECISION_COLUMNS,
    LABELS,
    Means,
    decision_figures,
    metrics_in,
    over_seeds,
    ranking_figures,
)
from edgeseg.bench.harness.sampling import ratio_of
from edgeseg.bench.harness.tabular import column
from edgeseg.bench.harness.units import FAILED, Result, UnitResults
from edgeseg.bench.latency.timing import SPIN, timings_of

UNTRAINED = "timed only: untrained (needs the authors' teacher weights)"
_RATIOS_TO = (PEERS["padim"], PEERS["patchcore"])


def _ms(name: str) -> dict[str, Any]:
    return column(name, digits=2, better="low")


@dataclass(frozen=True, kw_only=True)
class ComparedFile:
    """One file in one backend, ours or a peer's; None where something was not measured.

    A model that was never timed has one row, without a backend.
    """

    model: str = field(metadata=column("model"))
    precision: str | None = field(default=None, metadata=column("precision"))
    backend: str | None = field(default=None, metadata=column("backend"))
    accuracy: dict[str, float | None] = field(default_factory=dict, metadata=ACCURACY_COLUMNS)
    decided: dict[str, float | None] = field(default_factory=dict, metadata=DECISION_COLUMNS)
    pro_std: float | None = field(default=None, metadata=column("std of PRO", digits=4))
    exported_pro: float | None = field(default=None, metadata=column("exported PRO"))
    planted_found: float | None = field(
        default=None, metadata=column("planted found", better="high")
    )
    planted_auroc: float | None = field(
        default=None, metadata=column("planted AUROC", better="high")
    )
    fit_s: float | None = field(default=None, metadata=column("fit s", digits=1, better="low"))
    peak_mb: float | None = field(default=None, metadata=column("peak MB", digits=0, better="low"))
    p50_ms: float | None = field(default=None, metadata=_ms("p50 ms"))
    p99_ms: float | None = field(default=None, metadata=_ms("p99 ms"))
    streamed_p50_ms: float | None = field(default=None, metadata=_ms("streamed p50 ms"))
    streamed_p95_ms: float | None = field(default=None, metadata=_ms("streamed p95 ms"))
    streamed_p99_ms: float | None = field(default=None, metadata=_ms("streamed p99 ms"))
    processor_ms: float | None = field(default=None, metadata=_ms("processor ms"))
    megabytes: float | None = field(default=None, metadata=column("MB", digits=1, better="low"))
    arithmetic: str | None = field(default=None, metadata=column("arithmetic"))
    spin: str | None = field(default=None, metadata=column("spin"))
    form: str | None = field(default=None, metadata=column("exported as"))
    ratios: dict[str, str | None] = field(default_factory=dict, metadata=column("time / {} (95 %)"))
    state: str | None = field(default=None, metadata=column("state"))
    settings: OurModel | None = None  # None: a peer's
    planted: int = 0  # defects behind `planted_found`

    @property
    def name(self) -> str:
        """Name in sentences."""
        return self.model if self.precision is None else f"{self.model} {self.precision}"


@dataclass(frozen=True, kw_only=True)
class Record:
    """All results of a run."""

    plan: ComparisonPlan
    done: UnitResults
    timed: UnitResults

    @property
    def metrics(self) -> tuple[str, ...]:
        """Keys of the metrics that were measured on test images."""
        return metrics_in(
            result for _, by_category in self.accuracies() for result in by_category.values()
        )

    def accuracies(self) -> Iterator[tuple[str, dict[str, Means]]]:
        """List every model that was judged on test images, with its accuracy by category."""
        if self.plan.by_planted:
            return
        for graph in self.plan.first_graphs():
            yield graph.title, self._means(graph)
        for peer in self.plan.peers:
            if peer != TIMED_ONLY:
                yield PEERS[peer], self._peer_means(peer, "accuracy")

    def files(self, graph: Graph) -> dict[str, list[Result]]:
        """Results of a file by category, one for each seed."""
        repeats = zip(self.plan.categories, self.plan.repeats(graph), strict=True)
        return {
            category: [self.done.results.get(each.unit, {}) for each in seeds]
            for category, seeds in repeats
        }

    def rows(self) -> list[ComparedFile]:
        """List the rows of our models, then those of the peers."""
        timings = {timing["key"]: timing for timing in timings_of(self.timed)}
        rows = []
        for graph in self.plan.first_graphs():
            asked = self.plan.backends_for(graph)
            timed = [name for name in asked if f"{graph.title} on {name}" in timings]
            rows += [self._our_row(graph, backend, timings) for backend in timed or (None,)]
        for peer in self.plan.peers:
            timed = [name for name in ("cpu", "openvino") if f"{PEERS[peer]} on {name}" in timings]
            rows += [self._peer_row(peer, backend, timings) for backend in timed or (None,)]
        return rows

    def _our_row(
        self, graph: Graph, backend: str | None, timings: Mapping[str, Result]
    ) -> ComparedFile:
        known = [result for results in self.files(graph).values() for result in results]
        judged = backend is None or self.plan.is_judged_in(graph.precision, backend)
        means = self._means(graph) if judged else {}
        pro = [each.get("pro", (None, None)) for each in means.values()]
        spreads = [std for _, std in pro if std is not None]
        fits = [self.done.results.get(each.fit.unit, {}) for each, *_ in self.plan.repeats(graph)]
        planted = known[0].get("judged", {})
        figures = self._overall(means)
        return ComparedFile(
            model=graph.fit.model.name,
            precision=graph.precision,
            backend=backend,
            accuracy=ranking_figures(figures),
            decided=decision_figures(figures),
            pro_std=float(np.mean(spreads)) if spreads else None,
            exported_pro=figures.get("pro") if self.plan.peers else None,
            planted_found=planted.get("recall"),
            planted_auroc=planted.get("auroc"),
            planted=planted.get("planted", 0),
            fit_s=_mean([fit.get("fit_s") for fit in fits]),
            peak_mb=_mean([fit.get("peak_mb") for fit in fits]),
            form=known[0].get("form") if planted else None,
            state=_refusals(known),
            settings=graph.fit.model,
            **self._times(graph.title, backend, timings),
        )

    def _peer_row(
        self, peer: str, backend: str | None, timings: Mapping[str, Result]
    ) -> ComparedFile:
        """Make the row of a peer: accuracy of its raw maps and its ONNX file, not of its IR."""
        asked = backend != "openvino"
        figures = self._overall(self._peer_means(peer, "accuracy") if asked else {})
        exported = self._overall(self._peer_means(peer, "exported") if asked else {})
        results = self._peer_results(peer)
        return ComparedFile(
            model=PEERS[peer],
            backend=backend,
            accuracy=ranking_figures(figures),
            decided=decision_figures(figures),
            exported_pro=exported.get("pro"),
            fit_s=_mean([result.get("fit_s") for result in results]),
            peak_mb=_mean([result.get("peak_mb") for result in results]),
            state=UNTRAINED if peer == TIMED_ONLY else _failures(results),
            **self._times(PEERS[peer], backend, timings),
        )

    def _times(
        self, name: str, backend: str | None, timings: Mapping[str, Result]
    ) -> dict[str, Any]:
        if backend is None:
            return {"ratios": dict.fromkeys(self._ratios_to())}
        timing = timings[f"{name} on {backend}"]
        host, streamed = timing["host_ms"], timing["streamed_ms"]
        return {
            "p50_ms": host["p50"],
            "p99_ms": host["p99"],
            "streamed_p50_ms": streamed["p50"],
            "streamed_p95_ms": streamed["p95"],
            "streamed_p99_ms": streamed["p99"],
            "processor_ms": timing["streamed_processor_ms"],
            "megabytes": timing["size_bytes"] / 1e6,
            "arithmetic": timing["arithmetic"],
            "spin": SPIN[timing["spin"]],
            "ratios": {
                peer: _ratio(timing, timings.get(f"{peer} on {backend}"))
                for peer in self._ratios_to()
            },
        }

    def _ratios_to(self) -> list[str]:
        return [PEERS[peer] for peer in self.plan.peers if PEERS[peer] in _RATIOS_TO]

    def _means(self, graph: Graph) -> dict[str, Means]:
        """Average by category over the seeds whose file was not refused."""
        usable = {
            category: [result for result in results if LABELS.keys() & result.keys()]
            for category, results in self.files(graph).items()
        }
        return {category: over_seeds(results) for category, results in usable.items() if results}

    def _peer_results(self, peer: str) -> list[Result]:
        return [self.done.results.get(peer_unit(c, peer), {}) for c in self.plan.categories]

    def _peer_means(self, peer: str, kind: str) -> dict[str, Means]:
        known = zip(self.plan.categories, self._peer_results(peer), strict=True)
        return {c: over_seeds([result[kind]]) for c, result in known if kind in result}

    def _overall(self, by_category: Mapping[str, Means]) -> dict[str, float | None]:
        """Average over all categories; None if one is missing, since it may be a hard one.

        A category without masks has no figures of pixels: they are of the others.
        """
        return {
            key: _mean(
                [
                    by_category.get(category, {}).get(key, (None, None))[0]
                    for category in self.measured_on(key)
                ]
            )
            for key in self.metrics
        }

    def measured_on(self, key: str) -> tuple[str, ...]:
        """List the categories that have a metric: those with masks, where it needs them."""
        bare = {
            category
            for _, by_category in self.accuracies()
            for category, means in by_category.items()
            if means.get(key) == (None, None)
        }
        return tuple(category for category in self.plan.categories if category not in bare)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [float(value) for value in values if value is not None]
    return float(np.mean(known)) if known and len(known) == len(values) else None


def _ratio(timing: Result, peer: Result | None) -> str | None:
    if peer is None:
        return None
    return ratio_of(np.array(timing["samples_ms"]), np.array(peer["samples_ms"])).text


def _refusals(results: Sequence[Result]) -> str | None:
    count = sum(REFUSED in result for result in results)
    return f"refused on {count} of {len(results)}" if count else None


def _failures(results: Sequence[Result]) -> str | None:
    """Say on how many categories a peer failed, and the first error."""
    wrong = [result for result in results if result.get("error") or result.get(FAILED)]
    if not wrong:
        return None
    where = f" at {wrong[0]['step']}" if "step" in wrong[0] else ""
    why = wrong[0].get("error") or wrong[0][FAILED]
    return f"failed on {len(wrong)} of {len(results)}{where}: {why}"
