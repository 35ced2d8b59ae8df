"""Choose the backend that runs a model file.

    BACKENDS[name](model, options) -> Session

One entry a backend. Light: the command line takes the names from here, and the module behind an
entry loads when it is chosen.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from edgeseg.base.computer import has_cuda
from edgeseg.base.errors import RuntimeFailure, UsageError
from edgeseg.base.messages import Sentence, Setting
from edgeseg.base.progress import Note, ignore
from edgeseg.modelfile.file_reading import DISK, Files, OneReading
from edgeseg.modelfile.precisions import EXACT, PRECISIONS
from edgeseg.runtime.backends.session_options import AUTO, DEFAULTS, SessionOptions

if TYPE_CHECKING:
    from edgeseg.runtime.backends.base import Session

Opener = Callable[[Path, SessionOptions], "Session"]
_NOT_FOR_HEADS = ("tensorrt", "cuda", "openvino")
_FASTEST_FIRST = ("tensorrt", "cuda", "cpu")  # what `auto` tries


def _onnxruntime(device: str) -> Opener:
    def opener(model: Path, options: SessionOptions) -> "Session":
        if _half(model, options.files) is not None:
            from edgeseg.runtime.backends.head_session import HeadSession

            return HeadSession(model, options)
        from edgeseg.runtime.backends.onnxruntime_session import OrtSession

        return OrtSession(model, options, device=device)

    return opener


def _tensorrt(model: Path, options: SessionOptions) -> "Session":
    """Open a plan in TensorRT itself, which has no threads, and a graph through ONNX Runtime."""
    if not _is_plan(model):
        return _onnxruntime("tensorrt")(model, options)
    from edgeseg.runtime.backends.tensorrt_session import TensorRtSession

    return TensorRtSession(model, files=options.files)


def _openvino(model: Path, options: SessionOptions) -> "Session":
    from edgeseg.runtime.backends.openvino_session import OpenVinoSession

    return OpenVinoSession(model, options)


BACKENDS: dict[str, Opener] = {
    "tensorrt": _tensorrt,
    "cuda": _onnxruntime("cuda"),
    "cpu": _onnxruntime("cpu"),
    "openvino": _openvino,
}


def backend_names() -> tuple[str, ...]:
    """Return all names that --backend takes, `auto` included."""
    return (AUTO, *BACKENDS)


def open_session(
    model: Path, options: SessionOptions = DEFAULTS, *, note: Note = ignore
) -> "Session":
    """Load a .onnx or .plan file; `auto` notes which backend it takes, and why not a faster one.

    Every file is read once: the bytes that are compared with hashes and signatures are the bytes
    that run. A caller that has checked signatures already passes `options.files`.
    """
    from edgeseg.runtime.backends.model_file import BackendUnavailable, check_usable

    model = Path(model)
    if not model.is_file():
        raise UsageError(f"{model}: no such model; `edgeseg export` writes .onnx and .plan files")
    *tried, last = _attempts(model, options.backend, options.files)
    for name, file in tried:
        try:
            session = _open(name, file, options)
            break
        except BackendUnavailable as error:
            note(Sentence(error))
    else:
        name, file = last
        session = _open(name, file, options)
    try:
        check_usable(session.metadata, model, allow_random_weights=options.allow_random_weights)
    except RuntimeFailure:
        session.close()
        raise
    session.entry = name
    sidecar = file.with_suffix(".json")
    if not sidecar.is_file():
        note(f"{sidecar.name} is not beside {file.name}: it runs as exported")
    note(f"{model.name} runs on {session.runs_on}")
    _note_precision(session, model.name, note=note)
    return session


def _note_precision(session: "Session", name: str, *, note: Note) -> None:
    """Warn if this computer does not compute in the precision that the file states."""
    precision = PRECISIONS.get(session.metadata.precision)
    if precision is None:
        return
    if precision.arithmetic != session.arithmetic:
        note(
            f"{name} is a {precision.name} file, and here it is computed in "
            f"{session.arithmetic}: its threshold was found in {precision.arithmetic}; run it in "
            f"OpenVINO on a processor that has {precision.arithmetic}, or export fp32"
        )
    elif session.metadata.calibrated_in == session.entry:
        return  # its threshold is of these very numbers
    elif precision.needs_rounding and session.on_processor:
        note(
            f"{name} is a {precision.name} file, and here a processor runs it, which does not "
            f"round as {precision.name} says and as it was verified; run it on a GPU, or export "
            "fp32"
        )
    elif precision.name != EXACT and session.metadata.target == "trt" and session.on_processor:
        note(
            f"{name} is an {precision.name} file for TensorRT, and here a processor runs it, whose "
            "sums of its eight bits overflow where it has no VNNI: scores may be wrong; run it on "
            "a GPU, or export it for CPUs"
        )
    elif precision.name != EXACT and session.metadata.calibrated_in is not None:
        note(
            f"{name}: its threshold was found on {session.metadata.calibrated_in}, and "
            f"{session.entry} rounds {precision.name} in its own way; to find it here: edgeseg "
            f"calibrate {name} GOOD_IMAGES --backend {session.entry}"
        )


def _open(name: str, file: Path, options: SessionOptions) -> "Session":
    """Open the file in a backend, after checking that it may be used here."""
    from edgeseg.modelfile.signature import TrustedFiles, files_of_model

    checked = options.files
    if options.trust and not checked.signed:
        checked = files_of_model(file, options.trust)
    files = OneReading(checked)
    if options.backbone is not None and _half(file, files) is None:
        raise UsageError(
            f"{file}: a whole model, which has no place for a backbone; give the head that "
            "`edgeseg export --split` writes"
        )
    session = BACKENDS[name](file, replace(options, files=files))
    session.model_sha256 = files.sha256(file)
    session.statement = checked.statement if isinstance(checked, TrustedFiles) else None
    return session


def _attempts(model: Path, backend: str, files: Files = DISK) -> list[tuple[str, Path]]:
    """List backends, each with its file, in the order in which they are tried."""
    from edgeseg.runtime.backends.model_file import onnx_beside

    if backend not in backend_names():
        raise UsageError(f"backend {backend!r}: expected one of {', '.join(backend_names())}")
    plan = _is_plan(model)
    if not plan and model.suffix != ".onnx":
        raise UsageError(f"{model}: expected a .onnx or .plan file, as `edgeseg export` writes")
    if plan and backend not in (AUTO, "tensorrt"):
        raise UsageError(
            f"{model}: ",
            Setting("backend", backend),
            f" cannot run a plan, only `tensorrt` can; give the {model.stem}.onnx it was "
            "built from",
        )
    half = None if plan else _half(model, files)
    if half is not None:
        _check_half(model, half, backend)
        return [("cpu" if backend == AUTO else backend, model)]
    if backend != AUTO:
        return [(backend, model)]
    # Where there is no driver there is nothing to try, and nothing to say of it.
    of_graphs = _FASTEST_FIRST if has_cuda() else _FASTEST_FIRST[-1:]
    if not plan:
        return [(name, model) for name in of_graphs]
    graph = onnx_beside(model, files=files)
    others = [] if graph is None else [(name, graph) for name in of_graphs if name != "tensorrt"]
    return [("tensorrt", model), *others]


def _is_plan(model: Path) -> bool:
    from edgeseg.modelfile.metadata import PLAN_SUFFIXES

    return model.suffix in PLAN_SUFFIXES


def _half(model: Path, files: Files) -> str | None:
    """Return which half of a split model a file is; None for a whole one."""
    from edgeseg.runtime.backends.split_facts import read_split

    facts = None if _is_plan(model) else read_split(model, files=files)
    return None if facts is None else facts.half


def _check_half(model: Path, half: str, backend: str) -> None:
    if half == "backbone":
        raise UsageError(
            f"{model}: the half of a model that an accelerator runs, which gives no score; give "
            "the other half, .head.onnx"
        )
    if backend in _NOT_FOR_HEADS:
        raise UsageError(
            f"{model}: ",
            Setting("backend", backend),
            ": the head of a split model runs on the processor, in ONNX Runtime; leave it out, or "
            "run the whole model there",
        )
