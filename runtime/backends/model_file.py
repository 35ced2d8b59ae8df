"""Is this file the model its metadata speaks of, and may it be used?"""

from dataclasses import replace
from pathlib import Path

from edgeseg.base.errors import RuntimeFailure
from edgeseg.base.files import file_sha256, resolved, write_text
from edgeseg.base.messages import Setting
from edgeseg.base.plain import LONGEST_JSON, Malformed
from edgeseg.decision.thresholds import Thresholds
from edgeseg.modelfile.file_reading import DISK, Files
from edgeseg.modelfile.metadata import (
    PLAN_SUFFIXES,
    Decision,
    ModelMetadata,
)
from edgeseg.modelfile.versions import Change, newest
from edgeseg.runtime.backends.onnx_constants import check_constants
from edgeseg.runtime.backends.onnx_properties import embedded_text, graph_sha256


class BackendUnavailable(RuntimeFailure):
    """This computer cannot run the file this way; another backend may."""


def sidecar_path(model: Path) -> Path:
    """Where the JSON of a model lies: beside it, or beside the file that a link leads to."""
    beside = model.with_suffix(".json")
    if model.is_symlink() and not beside.exists():
        return resolved(model).with_suffix(".json")
    return beside


def read_sidecar(model: Path, *, files: Files = DISK) -> ModelMetadata | None:
    """The JSON beside a model, if there is one."""
    sidecar = sidecar_path(model)
    if not files.is_file(sidecar):
        return None
    with files.open(sidecar) as file:
        text = file.read(LONGEST_JSON + 1)
    if len(text) > LONGEST_JSON:
        raise RuntimeFailure(f"{sidecar}: over {LONGEST_JSON} bytes of JSON; copy it again")
    return ModelMetadata.from_json(text, source=str(sidecar))


def stage_sidecar(change: Change, model: str, metadata: ModelMetadata) -> None:
    """Let metadata take their place together with the model of that name."""
    sidecar = change.path(Path(model).with_suffix(".json").name)
    sidecar.write_text(sidecar_text(metadata), encoding="utf-8")


def sidecar_text(metadata: ModelMetadata) -> str:
    """What stands in a sidecar."""
    return metadata.to_json(indent=2) + "\n"


def file_metadata(model: Path, *, files: Files = DISK) -> ModelMetadata:
    """What a .onnx or .plan file and its sidecar say, without a library that runs it.

    The file is compared with its hash before any library parses it. Whoever runs it afterwards
    takes its bytes from the same `files`, so that it is what was compared.
    """
    if not files.is_file(model):
        raise RuntimeFailure(f"{model}: no such file; make one with `edgeseg export`")
    is_plan = model.suffix in PLAN_SUFFIXES
    return plan_metadata(model, files=files) if is_plan else _onnx_metadata(model, files)


def graph_source(model: Path, metadata: ModelMetadata, files: Files) -> bytes | Path:
    """What a library is given of a graph: the bytes that were compared.

    Weights in a second file are opened by the library itself, so that it needs the path.
    """
    if metadata.data_sha256 is None:
        return files.read(model)
    if files.signed:
        raise RuntimeFailure(
            f"{model}: keeps its weights in a second file, which could change between the look at "
            "its signature and its use; where keys are trusted, export it as one file below 2 GB"
        )
    return newest(model)


def _onnx_metadata(model: Path, files: Files) -> ModelMetadata:
    """The metadata inside a .onnx file, with what its sidecar says was decided since.

    A sidecar of another file is refused.
    """
    sidecar = read_sidecar(model, files=files)
    expected = None if sidecar is None else sidecar.onnx_sha256
    if expected is not None:
        _compare(model, expected, files)
    embedded = embedded_text(model, files=files)
    if embedded is None:
        raise RuntimeFailure(
            f"{model}: no edgeseg metadata inside, so its size, channels and threshold are "
            "unknown; expected a file written by `edgeseg export`"
        )
    metadata = ModelMetadata.from_json(embedded, source=str(model))
    if expected is None:
        _compare_graph(model, metadata, files)
        _check_alone(model, metadata)
    _compare_data(model, metadata, files)
    if not metadata.sealed:
        check_constants(model, files=files)
    return metadata if sidecar is None or expected is None else metadata.decided(sidecar)


def plan_metadata(model: Path, *, files: Files = DISK) -> ModelMetadata:
    """The sidecar of a plan, after comparing the plan with its hash."""
    metadata = read_sidecar(model, files=files)
    if metadata is None or metadata.plan is None:
        raise RuntimeFailure(
            f"{model}: no {model.with_suffix('.json').name} beside it that describes a plan; "
            "copy it along, or build again with `edgeseg export MODEL.edgeseg --trt`"
        )
    _compare(model, metadata.plan.plan_sha256, files)
    return metadata


def write_sidecar(model: Path, metadata: ModelMetadata) -> Path:
    """Store what was decided of a file that file_metadata has read; a plan's facts stay."""
    target, before = sidecar_path(model), read_sidecar(model)
    if model.suffix not in PLAN_SUFFIXES:
        plan = None if before is None else before.plan
        metadata = replace(metadata, onnx_sha256=file_sha256(model), plan=plan)
    write_text(target, sidecar_text(metadata))
    return target


def store_choice(
    model: Path, chosen: Thresholds, *, rule: str, rate: float | None, images: int, when: str
) -> Path:
    """Let a choice of thresholds stand in the sidecar, with a line of history; the sidecar.

    `rate` is what was asked for; None: a value.
    """
    metadata = file_metadata(model)
    decision = Decision(
        when=when,
        action="threshold",
        rule=rule,
        images=images,
        before=metadata.threshold.score,
        after=chosen.score,
        rate=rate,
    )
    history = (*metadata.history, decision)
    return write_sidecar(model, replace(metadata, threshold=chosen, history=history))


def _compare(model: Path, expected: str, files: Files) -> None:
    _check_hash(model, files.sha256(model), expected, place=model.with_suffix(".json").name)


def _check_alone(model: Path, metadata: ModelMetadata) -> None:
    """A graph whose threshold may have been chosen since its export does not run without it."""
    if metadata.needs_sidecar:
        raise RuntimeFailure(
            f"{model}: {model.with_suffix('.json').name}, its sidecar, is not beside it, and holds "
            "the threshold, the unsure band and the ignored regions that were chosen since the "
            "export; copy both files, or export the model again"
        )


def _compare_graph(model: Path, metadata: ModelMetadata, files: Files) -> None:
    """A graph alone is compared with the hash that its own metadata have of all the rest."""
    if metadata.graph_sha256 is None:
        if metadata.sealed:
            raise RuntimeFailure(
                f"{model}: neither its metadata nor a sidecar has its hash; export it again"
            )
        return
    try:
        with files.open(model) as file:
            found = graph_sha256(file)
    except Malformed as error:
        raise RuntimeFailure(f"{model}: not an ONNX file ({error}); export it again") from None
    _check_hash(model, found, metadata.graph_sha256, place="its metadata")


def _compare_data(model: Path, metadata: ModelMetadata, files: Files) -> None:
    """The weights of a graph over 2 GB, in a file of their own."""
    if metadata.data_sha256 is None:
        return
    data = model.with_name(f"{model.name}.data")
    if not files.is_file(data):
        raise RuntimeFailure(f"{model}: {data.name} is not beside it; copy both")
    _check_hash(data, files.sha256(data), metadata.data_sha256, place=model.name)


def _check_hash(path: Path, actual: str, expected: str, *, place: str) -> None:
    if actual != expected:
        raise RuntimeFailure(
            f"{path}: SHA-256 {actual[:12]}..., expected {expected[:12]}... as in {place}; one of "
            "the two was replaced or damaged, copy both again"
        )


def onnx_beside(plan: Path, *, files: Files = DISK) -> Path | None:
    """The graph a plan was built from, if it lies beside it and is the same one."""
    graph = plan.with_suffix(".onnx")
    sidecar = read_sidecar(plan, files=files)
    if sidecar is None or not files.is_file(graph) or sidecar.onnx_sha256 != files.sha256(graph):
        return None
    return graph


def check_usable(metadata: ModelMetadata, model: Path, *, allow_random_weights: bool) -> None:
    """Refuse what would run and give meaningless answers."""
    if metadata.backbone.random_weights and not allow_random_weights:
        raise RuntimeFailure(
            f"{model}: its backbone has random weights, so its scores mean nothing; fit with "
            "real weights, or pass ",
            Setting("allow_random_weights", True),
            " to test the machinery",
        )


def first_line(error: Exception) -> str:
    """A foreign library's message, short enough for ours."""
    lines = str(error).strip().splitlines()
    return lines[0][:300] if lines else type(error).__name__
