"""The registry of metrics: one entry each, for every table that shows it.

`edgeseg eval` computes all of them. Those that stay with a model are in its file, in the graphs
made of it, in the report of a stream and in benchmarks, under the same key.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from edgeseg.decision.metrics import LabelledResults


@dataclass(frozen=True, kw_only=True)
class Metric:
    """A figure of merit of a model on labelled images, 1 at best unless `fewer_is_better`."""

    key: str  # in JSON, artefacts and metadata
    label: str  # for people
    value: Callable[["LabelledResults"], float | None]  # None where it is undefined
    at_threshold: bool = False  # depends on the model's; benchmarks compare what does not
    stays: bool = True  # with the model
    fewer_is_better: bool = False  # 0 at best


METRICS = {
    metric.key: metric
    for metric in (
        Metric(key="pro", label="PRO", value=lambda results: results.maps.pro),
        Metric(key="pro_05", label="PRO 0.05", value=lambda results: results.maps.pro_05),
        Metric(
            key="pixel_auroc", label="pixel AUROC", value=lambda results: results.maps.pixel_auroc
        ),
        Metric(key="image_auroc", label="image AUROC", value=lambda results: results.image_auroc),
        Metric(
            key="f1",
            label="F1",
            value=lambda results: results.verdict_metrics.f1,
            at_threshold=True,
        ),
        Metric(
            key="precision",
            label="precision",
            value=lambda results: results.verdict_metrics.precision,
            at_threshold=True,
            stays=False,
        ),
        Metric(
            key="recall",
            label="recall",
            value=lambda results: results.verdict_metrics.recall,
            at_threshold=True,
        ),
        Metric(
            key="false_alarm_rate",
            label="false alarms",
            value=lambda results: results.verdict_metrics.false_alarm_rate,
            at_threshold=True,
            fewer_is_better=True,
        ),
        Metric(
            key="false_regions",
            label="false regions",
            value=lambda results: results.false_regions,
            at_threshold=True,
            stays=False,
            fewer_is_better=True,
        ),
    )
}


def stored_metrics() -> tuple[Metric, ...]:
    """Return the metrics that stay with a model, in the order of tables."""
    return tuple(metric for metric in METRICS.values() if metric.stays)
