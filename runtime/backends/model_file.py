"""Check that a file is the model its metadata describe, and that it may be used."""

from dataclasses import replace
from pathlib import Path

from edgeseg.base.errors import RuntimeFailure
from edgeseg.base.files import file_sha256, write_target, write_text
from edgeseg.base.messages import Setting
from edgeseg.base.plain import LONGEST_JSON, Malformed
from edgeseg.decision.thresholds import Thresholds
from edgeseg.modelfile.file_reading import DISK, Files
from edgeseg.modelfile.metadata import PLAN_SUFFIXES, Decision, ModelMetadata
from edgeseg.modelfile.versions import Change, newest
from edgeseg.runtime.backends.onnx_properties import graph_sha256, property_text


class BackendUnavailable(RuntimeFailure):
    """This computer cannot run the file in this backend; another one may."""


def sidecar_path(model: Path) -> Path:
    """Return the path of a model's JSON: beside the model, or beside the target of a link."""
    beside = model.with_suffix(".json")
    if model.is_symlink() and not beside.exists():
        return write_target(model).with_suffix(".json")
    return beside


def read_sidecar(model: Path, *, files: Files = DISK) -> ModelMetadata | None:
    """Read the JSON beside a model, if there is one."""
    sidecar = sidecar_path(model)
    if not files.is_file(sidecar):
        return None
    with files.open(sidecar) as file:
        text = file.read(LONGEST_JSON + 1)
    if len(text) > LONGEST_JSON:
        raise RuntimeFailure(f"{sidecar}: over {LONGEST_JSON} bytes of JSON; copy it again")
    return ModelMetadata.from_json(text, source=str(sidecar))


def stage_sidecar(change: Change, model: str, metadata: ModelMetadata) -> None:
    """Add metadata to a change, so that they are replaced together with the model."""
    sidecar = change.path(Path(model).with_suffix(".json").name)
    sidecar.write_text(sidecar_text(metadata), encoding="utf-8")


def sidecar_text(metadata: ModelMetadata) -> str:
    """Return the text of a sidecar."""
    return metadata.to_json(indent=2) + "\n"


def file_metadata(model: Path, *, files: Files = DISK) -> ModelMetadata:
    """Read the metadata of a .onnx or .plan file and its sidecar, without a library that runs it.

    The file is compared with its hash before any library parses it. A caller that runs the file
    afterwards takes its bytes from the same `files`, so that they are the bytes that were compared.
    """
    if not files.is_file(model):
        raise RuntimeFailure(f"{model}: no such file; make one with `edgeseg export`")
    is_plan = model.suffix in PLAN_SUFFIXES
    return plan_metadata(model, files=files) if is_plan else _onnx_metadata(model, files)


def graph_source(model: Path, metadata: ModelMetadata, files: Files) -> bytes | Path:
    """Return what a library loads a graph from: the bytes that were compared.

    Weights in a second file are opened by the library itself, so it gets the path.
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
    """Read the metadata inside a .onnx file, with the later decisions of its sidecar.

    A sidecar of another file is refused.
    """
    sidecar = read_sidecar(model, files=files)
    expected = None if sidecar is None else sidecar.onnx_sha256
    if expected is not None:
        _compare(model, expected, files)
    embedded = property_text(model, files=files)
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
    return metadata if sidecar is None or expected is None else metadata.with_decisions(sidecar)


def plan_metadata(model: Path, *, files: Files = DISK) -> ModelMetadata:
    """Compare a plan with its hash, and return its sidecar."""
    metadata = read_sidecar(model, files=files)
    if metadata is None or metadata.plan is None:
        raise RuntimeFailure(
            f"{model}: no {model.with_suffix('.json').name} beside it that describes a plan; "
            "copy it along, or build again with `edgeseg export MODEL.edgeseg --trt`"
        )
    _compare(model, metadata.plan.plan_sha256, files)
    return metadata


def write_sidecar(model: Path, metadata: ModelMetadata) -> Path:
    """Store the decisions on a file that file_metadata has read; the facts of a plan stay."""
    target, before = sidecar_path(model), read_sidecar(model)
    if model.suffix not in PLAN_SUFFIXES:
        plan = None if before is None else before.plan
        metadata = replace(metadata, onnx_sha256=file_sha256(model), plan=plan)
    write_text(target, sidecar_text(metadata))
    return target


def store_choice(
    model: Path, chosen: Thresholds, *, rule: str, rate: float | None, images: int, when: str
) -> Path:
    """Write chosen thresholds and a line of history to the sidecar; return its path.

    `rate` is the rate that was asked for, or None if a value was given.
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
    """Refuse a graph without its sidecar if a threshold may have been chosen since the export."""
    if metadata.needs_sidecar:
        raise RuntimeFailure(
            f"{model}: {model.with_suffix('.json').name}, its sidecar, is not beside it, and holds "
            "the threshold, the unsure band and the ignored regions that were chosen since the "
            "export; copy both files, or export the model again"
        )


def _compare_graph(model: Path, metadata: ModelMetadata, files: Files) -> None:
    """Compare a graph with the hash in its own metadata, which covers all the rest."""
    if metadata.graph_sha256 is None:
        raise RuntimeFailure(
            f"{model}: neither its metadata nor a sidecar has its hash; export it again"
        )
    try:
        with files.open(model) as file:
            found = graph_sha256(file)
    except Malformed as error:
        raise RuntimeFailure(f"{model}: not an ONNX file ({error}); export it again") from None
    _check_hash(model, found, metadata.graph_sha256, place="its metadata")


def _compare_data(model: Path, metadata: ModelMetadata, files: Files) -> None:
    """Compare the weights of a graph over 2 GB, which are in a second file."""
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
    """Return the graph a plan was built from, if it is beside the plan and unchanged."""
    graph = plan.with_suffix(".onnx")
    sidecar = read_sidecar(plan, files=files)
    if sidecar is None or not files.is_file(graph) or sidecar.onnx_sha256 != files.sha256(graph):
        return None
    return graph


def check_usable(metadata: ModelMetadata, model: Path, *, allow_random_weights: bool) -> None:
    """Refuse a model that would run and give meaningless results."""
    if metadata.backbone.random_weights and not allow_random_weights:
        raise RuntimeFailure(
            f"{model}: its backbone has random weights, so its scores mean nothing; fit with "
            "real weights, or pass ",
            Setting("allow_random_weights", True),
            " to test the machinery",
        )


def first_line(error: Exception) -> str:
    """Shorten a message of another library to its first line that says what is wrong."""
    # OpenVINO begins with the places in its own code.
    places = "Exception from "
    lines = [line for line in str(error).splitlines() if line and not line.startswith(places)]
    return lines[0][:300] if lines else type(error).__name__
