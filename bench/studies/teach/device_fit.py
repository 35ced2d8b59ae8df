"""A fit on the device against the fit by torch: seconds, memory, and how far the models are apart.

    python -m edgeseg.bench.studies.teach.device_fit mvtec_ad/bottle mvtec_ad/screw \
        --out bench/results/teach/device_fit

Each fit runs in a process of its own; the one through a graph cannot import torch or onnx.
Differences are of the largest value of each kind: L L' of the factors, the threshold, the held-out
scores of good images and those of planted defects.
"""

import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from edgeseg.bench.harness.machine import busy_warning, describe
from edgeseg.bench.harness.processes import in_process
from edgeseg.bench.harness.report import Report, write_report
from edgeseg.bench.harness.tabular import column, table_of
from edgeseg.config import FitConfig
from edgeseg.options import FOLDER, note
from edgeseg.runtime.backends.session_options import available_cores

WORKER = "edgeseg.bench.studies.teach.device_fit_worker"
BACKBONES = ("efficientnet_lite0", "efficientnet_lite1")


@dataclass(frozen=True, kw_only=True)
class Row:
    """One dataset, backbone and number of images."""

    data: str = field(metadata=column("data"))
    backbone: str = field(metadata=column("backbone"))
    images: int = field(metadata=column("images"))
    device_s: float = field(metadata=column("device fit s", digits=1))
    write_s: float = field(metadata=column("write model s", digits=1))
    torch_s: float = field(metadata=column("torch fit s", digits=1))
    device_processor_s: float = field(metadata=column("device processor s", digits=1))
    torch_processor_s: float = field(metadata=column("torch processor s", digits=1))
    device_mb: float = field(metadata=column("device peak MB", digits=0))
    torch_mb: float = field(metadata=column("torch peak MB", digits=0))
    factors: float = field(metadata=column("factors differ by", digits=8))
    threshold: float = field(metadata=column("threshold", digits=8))
    scores: float = field(metadata=column("scores", digits=8))
    planted: float = field(metadata=column("planted", digits=8))


def compared(device: Path, torch: Path) -> dict[str, float]:
    """How far two fits of the same images are apart."""
    from edgeseg.artefact.artefact import load_artefact

    ours, theirs = load_artefact(device), load_artefact(torch)
    products = [
        one.factors.factor.astype(np.float64) @ one.factors.factor.swapaxes(1, 2)
        for one in (ours, theirs)
    ]
    thresholds = [np.array([one.calibration.score_threshold]) for one in (ours, theirs)]
    planted = [np.zeros(1) if one.planted is None else one.planted.scores for one in (ours, theirs)]
    return {
        "factors": apart(products[0], products[1]),
        "threshold": apart(thresholds[0], thresholds[1]),
        "scores": apart(ours.calibration.good.scores, theirs.calibration.good.scores),
        "planted": apart(planted[0], planted[1]),
    }


def apart(found: NDArray[Any], expected: NDArray[Any]) -> float:
    """The largest difference, as a share of the largest value."""
    return float(np.abs(found - expected).max() / max(float(np.abs(expected).max()), 1e-30))


def rows(
    data: tuple[Path, ...], counts: tuple[int, ...], backbones: tuple[str, ...], scratch: Path
) -> Iterator[Row]:
    """Every fit, one after another; a dataset with fewer images is fitted on all it has."""
    from edgeseg.export.backbone_export import export_backbone

    for backbone in backbones:
        graph = export_backbone(FitConfig(backbone=backbone), scratch / f"{backbone}.onnx").path
        for folder in data:
            for count in counts:
                yield _row(folder, count, backbone, graph, scratch)


def _row(folder: Path, count: int, backbone: str, graph: Path, scratch: Path) -> Row:
    note(f"{folder.name}, {backbone}, {count} images")
    artefacts = [scratch / f"{kind}.edgeseg" for kind in ("device", "torch")]
    device, torch = (
        in_process(
            WORKER,
            {"data": str(folder), "count": count, "backbone": backbone}
            | {"graph": through, "artefact": str(artefact)},
            scratch,
        )
        for through, artefact in zip((str(graph), None), artefacts, strict=True)
    )
    return Row(
        data=folder.name,
        backbone=backbone,
        images=device["images"],
        device_s=device["seconds"],
        write_s=device["write_s"],
        torch_s=torch["seconds"],
        device_processor_s=device["processor_s"],
        torch_processor_s=torch["processor_s"],
        device_mb=device["peak_mb"],
        torch_mb=torch["peak_mb"],
        **compared(artefacts[0], artefacts[1]),
    )


def report_of(found: list[Row], *, busy: str | None) -> Report:
    """The table, and the worst of each difference."""
    worst = {name: max(getattr(row, name) for row in found) for name in ("factors", "threshold")}
    scores = max(max(row.scores, row.planted) for row in found)
    return Report(
        name="device-fit",
        title="A fit on the device against the fit by torch",
        findings=(
            f"Largest differences over {len(found)} fits: factors {worst['factors']:.1e}, "
            f"thresholds {worst['threshold']:.1e}, scores {scores:.1e}, as shares of the largest "
            "value of each kind.",
            f"Peak memory of a fit through the graph: {max(row.device_mb for row in found):.0f} MB "
            f"at most, by torch {max(row.torch_mb for row in found):.0f} MB.",
        ),
        tables=(table_of("Fits", found),),
        figures=(),
        facts=describe(threads=available_cores()),
        notes=() if busy is None else (busy,),
        raw={"rows": [asdict(row) for row in found]},
    )


@click.command()
@click.argument("data", nargs=-1, required=True, type=FOLDER)
@click.option("--count", "counts", multiple=True, type=int, default=(60, 200), show_default=True)
@click.option("--backbone", "backbones", multiple=True, default=BACKBONES, show_default=True)
@click.option("--out", type=FOLDER, required=True)
def main(
    data: tuple[Path, ...], counts: tuple[int, ...], backbones: tuple[str, ...], out: Path
) -> None:
    """Fit every dataset both ways and write the report."""
    busy = busy_warning()
    with tempfile.TemporaryDirectory() as scratch:
        found = list(rows(data, counts, backbones, Path(scratch)))
    out.mkdir(parents=True, exist_ok=True)
    write_report(report_of(found, busy=busy), out)
    note(f"wrote {out / 'report.md'}")


if __name__ == "__main__":
    main()
