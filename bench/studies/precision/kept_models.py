"""Fitted models of a study, kept in its folder and used again for the same settings."""

from pathlib import Path

from edgeseg.artefact.artefact import Artefact, load_artefact, save_artefact
from edgeseg.config import FitConfig
from edgeseg.data.datasets import Dataset
from edgeseg.fitting.fitting import FitOptions, fit


def kept_fit(dataset: Dataset, config: FitConfig, folder: Path, *, weights: str | None) -> Artefact:
    """The model of a category, fitted if it is not there."""
    path = folder / f"{dataset.name}-{config.backbone}.edgeseg"
    if path.is_file():
        artefact = load_artefact(path)
        if artefact.config == config and artefact.data["fitted"] == len(dataset.train):
            return artefact
    artefact = fit(dataset, config, FitOptions(weights=weights, keep_moments=False))
    save_artefact(artefact, path)
    return artefact
