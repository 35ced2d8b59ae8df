"""Open an exported file in every backend of this computer, as a stream opens it."""

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray

from edgeseg.base.errors import ExportError
from edgeseg.base.messages import Setting
from edgeseg.export.precision.exact_session import exact_session
from edgeseg.model.gaussian_head import Cells, GaussianHead, Insides, judge_inside
from edgeseg.model.predictor import VariantPredictor, VariantScores
from edgeseg.modelfile.precisions import EXACT, Precision, precision_spec
from edgeseg.runtime.backends.onnxruntime_session import open_onnxruntime
from edgeseg.runtime.backends.openvino_session import arithmetic, compile_openvino, read_openvino
from edgeseg.runtime.backends.session_options import AUTO, SessionOptions

Maps = NDArray[np.float32]
Frames = NDArray[np.uint8]
Run = Callable[[Frames], tuple[Maps, ...]]  # frames (N, H, W, 3) to the outputs that were named
MAP_AND_SCORE = ("map", "score")
VARIANT = ("variant",)  # output of a model of several variants
# By what a file says of its calibration: names of backends, and a CPU that does as TensorRT does.
AS_WRITTEN = "cpu, as written"
NAMES = {
    "cpu": "ONNX Runtime",
    AS_WRITTEN: "ONNX Runtime, as written",
    "openvino": "OpenVINO",
}
_CAPABILITIES = {"float32": "FP32", "bfloat16": "BF16", "float16": "FP16"}  # OpenVINO's names


def backend_runs(
    path: Path,
    *,
    precision: str,
    target: str,
    batch: tuple[int, int, int],
    backend: str = AUTO,
    outputs: tuple[str, ...] = MAP_AND_SCORE,
) -> dict[str, Callable[[], Run]]:
    """Return a function that opens the file, for every backend here that can run it.

    The keys are those of NAMES. The first backend is the one that the file is made for. Sessions
    take any number of frames.
    """
    spec = precision_spec(precision)
    runs: dict[str, Callable[[], Run]] = {}
    if spec.arithmetic == "float32":
        # No CPU rounds as fp16 says, so that is for other devices whatever the target.
        exact = target == "trt" or (spec.needs_rounding and backend != "cpu")
        name = AS_WRITTEN if exact else "cpu"
        runs[name] = lambda: in_batches(_onnxruntime(path, outputs, exact=exact), batch)
    # OpenVINO has no mode for signed int8 as written; where it lacks VNNI, it saturates.
    if find_spec("openvino") is not None and (precision, target) != ("int8", "trt"):
        runs["openvino"] = lambda: in_batches(_openvino(path, outputs, spec), batch)
    if not runs:
        raise _no_openvino(spec)
    return {name: runs[name] for name in sorted(runs, key=lambda name: name != backend)}


def backend_predictors(
    path: Path,
    *,
    precision: str,
    target: str,
    batch: tuple[int, int, int],
    backend: str = AUTO,
    head: GaussianHead | None = None,
    variants: bool = False,
) -> dict[str, Callable[[], VariantPredictor]]:
    """Return `backend_runs` as predictors of maps and scores, by the names that people know.

    For a file with its grid, `head` judges parts that reach beyond their picture. With `variants`
    they also tell the variant of a product.
    """
    outputs = MAP_AND_SCORE + VARIANT * variants if head is None else head.outputs
    runs = backend_runs(
        path, precision=precision, target=target, batch=batch, backend=backend, outputs=outputs
    )
    return {NAMES[name]: _predictor(opener, outputs, head) for name, opener in runs.items()}


def _predictor(
    opener: Callable[[], Run], outputs: tuple[str, ...], head: GaussianHead | None
) -> Callable[[], VariantPredictor]:
    def open_predictor() -> VariantPredictor:
        run = opener()

        def predict(frames: Frames, insides: Insides = ()) -> VariantScores | tuple[Maps, Maps]:
            values = dict(zip(outputs, run(frames), strict=True))
            maps, scores = values["map"], values["score"]
            if any(inside is not None for inside in insides):
                if head is None:
                    raise ExportError(
                        "a part reaches beyond its picture, and the file does not give the grid "
                        "that this needs; export it with its grid"
                    )
                maps, scores = maps.copy(), scores.copy()  # a backend may own its outputs
                cells = Cells(values["grid"], values.get("map_grid", values["grid"]))
                judge_inside(head.rule, head.kept, cells, insides, maps, scores)
            if "variant" in values:
                return VariantScores(maps, scores, values["variant"].astype(np.int64))
            return maps, scores

        return predict

    return open_predictor


def _onnxruntime(path: Path, outputs: tuple[str, ...], *, exact: bool) -> Run:
    """Open ONNX Runtime as a stream does; `exact` runs the graph as written, like TensorRT."""
    how = onnxruntime.RunOptions()
    session: Any
    if exact:
        session = exact_session(onnx.load(path))
    else:
        session = open_onnxruntime(path, SessionOptions())
        # What a run took goes back to the system: the reference needs as much for large frames.
        how.add_run_config_entry("memory.enable_memory_arena_shrinkage", "cpu:0")
    name = session.get_inputs()[0].name
    return lambda frames: tuple(session.run(list(outputs), {name: frames}, how))


def _openvino(path: Path, outputs: tuple[str, ...], spec: Precision) -> Run:
    """Open OpenVINO as a stream does."""
    compiled = compile_openvino(read_openvino(path), SessionOptions(), model=path)
    if spec.arithmetic != "float32" and arithmetic(compiled) != spec.arithmetic:
        raise no_arithmetic(spec)

    def run(frames: Frames) -> tuple[Maps, ...]:
        values = compiled(frames)
        return tuple(values[name] for name in outputs)

    return run


def check_arithmetic(spec: Precision) -> None:
    """Refuse a precision that this processor does not compute in, before any work begins."""
    if spec.arithmetic == "float32":
        return
    if find_spec("openvino") is None:
        raise _no_openvino(spec)
    import openvino

    if not processor_computes_in(openvino.Core(), spec):
        raise no_arithmetic(spec)


def processor_computes_in(core: Any, spec: Precision) -> bool:
    """Ask OpenVINO whether the processor has a precision; it ignores unknown hints silently."""
    return _CAPABILITIES[spec.arithmetic] in core.get_property("CPU", "OPTIMIZATION_CAPABILITIES")


def _no_openvino(spec: Precision) -> ExportError:
    return ExportError(
        Setting("precision", spec.name),
        " runs in OpenVINO alone, which is not installed; `pip install 'edgeseg[openvino]'`, or "
        "export with ",
        Setting("precision", EXACT),
    )


def no_arithmetic(spec: Precision) -> ExportError:
    """Make the error for a precision that this processor does not compute in."""
    return ExportError(
        Setting("precision", spec.name),
        f": this processor has no {spec.arithmetic}; export on the computer that will run the "
        "file, or with ",
        Setting("precision", EXACT),
    )


def in_batches(run: Run, batch: tuple[int, int, int]) -> Run:
    """Wrap a graph of fixed or bounded batch size, so that it takes any number of frames."""
    low, _, high = batch

    def run_all(frames: Frames) -> tuple[Maps, ...]:
        parts = []
        for start in range(0, len(frames), high):
            chunk = frames[start : start + high]
            count = len(chunk)
            # Frames are repeated until there are enough, and what they give is dropped.
            values = run(np.resize(chunk, (max(low, count), *chunk.shape[1:])))
            parts.append([value[:count] for value in values])
        return tuple(np.concatenate(part) for part in zip(*parts, strict=True))

    return run_all
