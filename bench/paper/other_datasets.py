"""The paper's other datasets: KolektorSDD in three folds, KolektorSDD2, and mSTC."""

from pathlib import Path

from edgeseg.bench.harness.accuracy import fingerprint, measure_accuracy, open_limited
from edgeseg.bench.harness.units import Result, Unit
from edgeseg.bench.paper.experiments import PAPER, Source, unit_name
from edgeseg.data.datasets import Dataset, open_dataset
from edgeseg.data.layouts import KOLEKTOR_FOLDS
from edgeseg.evaluation.evaluate import torch_predictor
from edgeseg.fitting.fitting import FitOptions, fit

KOLEKTOR_HW = (704, 256)
MSTC_RIDGE = 0.3  # the value in the authors' code for this dataset


def kolektor_sources(
    kolektor: Path | None, kolektor2: Path | None, *, limit: int | None
) -> tuple[list[Source], list[str]]:
    """The folds and the second dataset, as far as they are here, and notes on the rest."""
    sources, notes = [], []
    if kolektor is None:
        notes.append("KolektorSDD is absent: give its folder with --kolektor.")
    else:
        sources += [
            Source(
                name=f"kolektor-fold{fold + 1}",
                dataset=open_limited(kolektor, limit=limit, fold=fold),
                size_hw=KOLEKTOR_HW,
            )
            for fold in range(KOLEKTOR_FOLDS)
        ]
        notes.append(
            "KolektorSDD: the authors' folds are not part of the dataset; ours go by commutator "
            "number modulo three, so single folds cannot be compared with the published ones."
        )
    if kolektor2 is None:
        notes.append("KolektorSDD2 is absent: give its folder with --kolektor2.")
    else:
        dataset = open_limited(kolektor2, limit=limit)
        sources.append(Source(name="kolektor2", dataset=dataset, size_hw=KOLEKTOR_HW))
        if len(dataset.test) < 1004:
            notes.append(
                f"KolektorSDD2: {len(dataset.train)} good images to fit on and "
                f"{len(dataset.test)} to test, of the published 2085 and 1004."
            )
    return sources, notes


def campus_units(mstc: Path | None, *, weights: str | None) -> tuple[list[Unit], list[str]]:
    """mSTC by the ordinary fit: its 43 000 test frames are too many to keep features of."""
    if mstc is None:
        return [], ["mSTC is absent: give its folder with --mstc."]
    dataset = open_dataset(mstc)
    return [_campus_unit(dataset, kind, weights) for kind in ("semi_orthogonal", "sampled")], []


def _campus_unit(dataset: Dataset, kind: str, weights: str | None) -> Unit:
    config = PAPER.with_options({"embedding": kind, "ridge": MSTC_RIDGE})

    def run() -> Result:
        artefact = fit(dataset, config, FitOptions(weights=weights, keep_moments=False))
        predict = torch_predictor(artefact.model())
        return measure_accuracy(predict, dataset, size_hw=config.size_hw).to_dict()

    return Unit(
        name=unit_name("mstc", "resnet18", kind),
        settings={"data": fingerprint(dataset), "config": config.to_dict(), "weights": weights},
        run=run,
        weight=3000.0,
    )
