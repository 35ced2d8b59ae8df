"""The artefact, a fitted model on disk: tensors in safetensors, the rest in a JSON header."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from edgeseg.base.errors import ArtefactError, EdgesegError
from edgeseg.base.files import atomic_path
from edgeseg.base.plain import JsonObject, Malformed, record
from edgeseg.config import FitConfig
from edgeseg.decision.calibration import Calibration, GoodImageScores
from edgeseg.decision.kinds import KnownKinds
from edgeseg.decision.planted_scores import PlantedScores
from edgeseg.decision.why import Reasons
from edgeseg.model.backbone_weights import BackboneWeights
from edgeseg.model.backbones import BackboneSpec, backbone_spec, embedded_features
from edgeseg.model.factors import Factors, MapFactors, map_rank
from edgeseg.model.gaussian_head import GaussianHead
from edgeseg.model.known_directions import KnownDefects, KnownDirections
from edgeseg.model.map_layers import map_width
from edgeseg.model.moments import Moments
from edgeseg.model.weights_origin import WeightsOrigin, arrays_sha256
from edgeseg.model.windows import Windows
from edgeseg.modelfile.container import seal_header
from edgeseg.modelfile.header import (
    KEY,
    SCHEMA,
    calibration_facts,
    damage_error,
    read_artefact_file,
    stored_config,
)
from edgeseg.modelfile.known_kinds import KnownFacts
from edgeseg.modelfile.seal import seal_file
from edgeseg.modelfile.tensor_checks import check_values

if TYPE_CHECKING:
    from edgeseg.model.feature_extractor import Backbone
    from edgeseg.model.reference import ReferenceModel

Told = TypeVar("Told")
# What numpy, torch and our own checks say of values that do not fit: torch's are RuntimeErrors.
WRONG_VALUES = (
    *(LookupError, TypeError, ValueError, ArithmeticError, RuntimeError, MemoryError),
    *(SafetensorError, EdgesegError),
)


@dataclass(frozen=True, kw_only=True)
class Artefact:
    """The result of a fit: enough to predict, to export and to go on fitting."""

    config: FitConfig
    weights: BackboneWeights
    origin: WeightsOrigin
    embedding: NDArray[np.float32]  # W (F, k)
    factors: Factors
    moments: Moments | None  # None: this model cannot be updated
    calibration: Calibration
    data: JsonObject
    versions: dict[str, str]
    known: KnownDefects | None = None  # None: it was fitted on good parts alone
    planted: PlantedScores | None = None  # None: none were made, or they were of other moments
    # Of the pixels of the images behind the moments, ascending.
    prints: NDArray[np.uint64] = field(default_factory=lambda: sorted_prints(()))
    reasons: Reasons | None = None  # to say why; None: of a fit of 0.2.0, or by shards
    kinds: KnownKinds | None = None  # of known defects; None: none were given
    accuracy: list[JsonObject] = field(default_factory=list)
    history: list[JsonObject] = field(default_factory=list)  # see edgeseg.modelfile.history

    @property
    def spec(self) -> BackboneSpec:
        """The registry entry of the backbone."""
        return backbone_spec(self.config.backbone)

    @property
    def backbone(self) -> "Backbone":
        """The network; for a fit through a graph, its weights are looked for."""
        return self.weights.backbone

    def head(self) -> GaussianHead:
        """Return what follows the embedding."""
        return GaussianHead(self.config, self.factors)

    def model(self) -> "ReferenceModel":
        """Return the reference forward with these values."""
        from edgeseg.model.reference import ReferenceModel  # loads torch

        return ReferenceModel(
            self.config,
            backbone=self.backbone,
            embedding=self.embedding,
            factors=self.factors,
            explains=self.explains,
        )

    @property
    def explains(self) -> bool:
        """Whether its graph gives what kinds and reasons are told by."""
        return self.reasons is not None or self.kinds is not None

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of what its graph gives."""
        return (*self.head().outputs, *("apart",) * self.explains)

    def header(self) -> JsonObject:
        """Return what `edgeseg info` shows."""
        planted = {} if self.planted is None else {"planted": {"kinds": list(self.planted.kinds)}}
        known = {} if self.known is None else {"known": asdict(self.known.facts)}
        told = (("reasons", self.reasons), ("kinds", self.kinds))
        explained = {name: asdict(values) for name, values in told if values is not None}
        return (planted | known | explained) | {
            "schema": SCHEMA,
            "config": self.config.to_dict(),
            "weights": asdict(self.origin),
            "features": int(self.embedding.shape[0]),
            "k": int(self.embedding.shape[1]),
            "rank": self.factors.rank,
            "ridge": self.factors.ridge,
            "grid_hw": list(self.config.grid_hw),
            "calibration": self.calibration.header(),
            "data": self.data,
            "accuracy": self.accuracy,
            "history": self.history,
            "versions": self.versions,
        }


def sorted_prints(prints: Iterable[int]) -> NDArray[np.uint64]:
    """Return the prints as a file keeps them: sorted."""
    return np.array(sorted(prints), np.uint64)


def save_artefact(artefact: Artefact, path: Path) -> None:
    """Write the file in one step; the same artefact gives the same bytes."""
    good = artefact.calibration.good
    tensors: dict[str, NDArray[Any]] = {
        "embedding": artefact.embedding,
        "mean": artefact.factors.mean,
        "factor": artefact.factors.factor,
    }
    for name in ("scores", "peaks", "frame_d2", "d2_mean", "d2_std", "floors"):
        tensors[f"good.{name}"] = getattr(good, name)
    if good.groups.size:
        tensors["good.groups"] = good.groups
    for name in ("grids", "shown_grids"):
        if getattr(good, name) is not None:
            tensors[f"good.{name}"] = getattr(good, name)
    if artefact.factors.shown is not None:
        tensors["map.weight"] = artefact.factors.shown.weight
        tensors["map.factor"] = artefact.factors.shown.factor
    if artefact.factors.variant_means is not None:
        tensors["variants.mean"] = artefact.factors.variant_means
    if artefact.known is not None:
        tensors["known.directions"] = artefact.known.learned.directions
    if artefact.planted is not None:
        for name in ("scores", "areas", "floors"):
            tensors[f"planted.{name}"] = getattr(artefact.planted, name)
    if artefact.prints.size:
        tensors["fitted.prints"] = artefact.prints
    for name, values in (artefact.weights.arrays or {}).items():
        tensors[f"backbone.{name}"] = values
    if artefact.moments is not None:
        for name, sums in artefact.moments.pack().items():
            tensors[f"moments.{name}"] = sums
    write_tensors(path, tensors, key=KEY, header=artefact.header())


def write_tensors(
    path: Path, tensors: dict[str, NDArray[Any]], *, key: str, header: JsonObject
) -> None:
    """Write a safetensors file with a hash of itself, in one step."""
    plain = {name: np.ascontiguousarray(values) for name, values in tensors.items()}
    with atomic_path(path) as temporary:
        try:
            # One key alone: safetensors writes several in an order that differs from run to run.
            save_file(plain, temporary, {key: seal_header(header)})
            seal_file(temporary)
        except SafetensorError as error:
            raise ArtefactError(
                f"{path}: cannot be written ({error}); look at the space left on the disk"
            ) from None


def load_artefact(path: Path) -> Artefact:
    """Read and check a file that save_artefact wrote."""
    file = read_artefact_file(path)  # says what is wrong with a file of another kind
    header, tensors = file.header, _read_tensors(path)
    try:
        check_values(tensors)
        config = stored_config(header["config"])
        origin = record(WeightsOrigin, header["weights"], place="weights")
        weights = stored_weights(config, origin, tensors)
        good = GoodImageScores(**dict[str, Any](under("good.", tensors)))
        calibration = Calibration(good=good, **vars(calibration_facts(header)))
        _check_shapes(config, tensors)
        saved = under("moments.", tensors)
        artefact = Artefact(
            config=config,
            weights=weights,
            origin=origin,
            embedding=tensors["embedding"],
            factors=Factors(
                mean=tensors["mean"],
                factor=tensors["factor"],
                ridge=header["ridge"],
                shown=_map_factors(config, tensors),
                variant_means=tensors["variants.mean"] if config.variants else None,
            ),
            moments=Moments.unpack(saved) if saved else None,
            calibration=calibration,
            known=_known_defects(header, tensors),
            planted=_planted_scores(header, tensors),
            reasons=_record_of(Reasons, header, "reasons"),
            kinds=_record_of(KnownKinds, header, "kinds"),
            prints=sorted_prints(tensors.get("fitted.prints", np.empty(0, np.uint64)).tolist()),
            data=header["data"],
            accuracy=header["accuracy"],
            history=header["history"],
            versions=header["versions"],
        )
    except WRONG_VALUES as error:
        raise damage_error(path, error) from None
    return artefact


def stored_weights(
    config: FitConfig, origin: WeightsOrigin, tensors: dict[str, NDArray[Any]]
) -> BackboneWeights:
    """Return the backbone's weights among the tensors of a file, or their hash alone."""
    arrays = under("backbone.", tensors)
    if arrays and arrays_sha256(arrays) != origin.sha256:
        raise Malformed("its backbone weights do not match their hash")
    return BackboneWeights(config, origin, arrays or None)


def _read_tensors(path: Path) -> dict[str, NDArray[Any]]:
    try:
        with safe_open(path, framework="numpy") as file:
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise ArtefactError(
            f"{path}: not an edgeseg artefact ({error}); expected a whole file written by "
            "edgeseg fit"
        ) from None


def _check_shapes(config: FitConfig, tensors: dict[str, NDArray[Any]]) -> None:
    """Refuse tensors that do not fit each other: they would fail much later and less clearly."""
    k, rank = tensors["embedding"].shape[-1], tensors["factor"].shape[-1]
    windows = Windows.of(config)
    expected: dict[str, tuple[int, ...]] = {
        "embedding": (embedded_features(config), k),
        "mean": (windows.count, k),
        "factor": (windows.covariances, k, rank),
    }
    if width := map_width(config):
        expected["map.weight"] = (windows.covariances, rank)
        expected["map.factor"] = (windows.covariances, width, map_rank(width, kept=rank, k=k))
    if config.variants:
        expected["variants.mean"] = (len(config.variants), windows.count, k)
    if "known.directions" in tensors:
        expected["known.directions"] = (k, tensors["known.directions"].shape[-1])
    if "moments.count" in tensors:
        expected["moments.count"] = (windows.kept,)
        expected["moments.mean"] = (windows.kept, k)
        expected["moments.scatter"] = (windows.kept, k * (k + 1) // 2)
    for name, expected_shape in expected.items():
        shape = tuple(tensors[name].shape)
        if shape != expected_shape:
            raise ArtefactError(f"{name} has shape {shape}, expected {expected_shape}")


def _map_factors(config: FitConfig, tensors: dict[str, NDArray[Any]]) -> MapFactors | None:
    return MapFactors(**under("map.", tensors)) if map_width(config) else None


def _known_defects(header: JsonObject, tensors: dict[str, NDArray[Any]]) -> KnownDefects | None:
    if "known.directions" not in tensors:
        return None
    facts = record(KnownFacts, header["known"], place="known")
    learned = KnownDirections(directions=tensors["known.directions"], share=facts.share)
    return KnownDefects(learned=learned, facts=facts)


def _record_of(kind: type[Told], header: JsonObject, name: str) -> Told | None:
    return None if name not in header else record(kind, header[name], place=name)


def _planted_scores(header: JsonObject, tensors: dict[str, NDArray[Any]]) -> PlantedScores | None:
    arrays = under("planted.", tensors)
    if not arrays:  # none were asked for
        return None
    return PlantedScores(**arrays, kinds=tuple(header["planted"]["kinds"]))


def under(prefix: str, tensors: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Return the tensors whose names begin with a prefix, by the rest of their names."""
    return {k[len(prefix) :]: v for k, v in tensors.items() if k.startswith(prefix)}
