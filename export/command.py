"""`edgeseg export`."""

import json
import time
from dataclasses import asdict, fields, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgeseg.artefact.header import read_config
from edgeseg.contract.metadata import ModelMetadata
from edgeseg.contract.precisions import PRECISIONS, Precision
from edgeseg.contract.signature import admit, note_stale
from edgeseg.data.datasets import Dataset, open_dataset
from edgeseg.errors import UsageError
from edgeseg.export.engine.options import BUILDERS, EngineOptions
from edgeseg.export.engine.packages import import_package
from edgeseg.export.options import SESSIONS, TARGETS, ExportOptions
from edgeseg.files import check_writable, size_text
from edgeseg.options import (
    FILE,
    FOLDER,
    PATH,
    Entry,
    Numbers,
    gathered,
    given,
    graph_option,
    listeners,
    quiet_option,
    trust_option,
)
from edgeseg.progress import Note, Progress

if TYPE_CHECKING:
    from edgeseg.export.exported import Exported

_EXISTING = click.Path(path_type=Path, exists=True, file_okay=False)
_WITH_IMAGES = " and ".join(p.name for p in PRECISIONS.values() if p.needs_images)


def _explained(precision: Precision) -> str:
    needs = ", needs --calibrate" if precision.needs_images else ""
    return f"{precision.name}: {precision.meaning}{needs}."


class Batch(Numbers):
    """min,opt,max."""

    def __init__(self) -> None:
        super().__init__("MIN,OPT,MAX", sign=",", counts=(3,), expected="min,opt,max such as 1,4,8")

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, int, int]:
        """A text to three numbers in order."""
        low, likely, high = super().convert(value, param, ctx)
        if not 1 <= low <= likely <= high:
            self.fail(f"{value!r}: expected 1 <= min <= opt <= max", param, ctx)
        return low, likely, high


def _graph(
    *,
    precision: str,
    target: str | None,
    backend: str,
    fixed_batch: int,
    batch: tuple[int, int, int] | None,
    no_grid: bool,
    no_verify: bool,
    allow_random_weights: bool,
) -> ExportOptions:
    if batch and given("fixed_batch"):
        raise UsageError("fixed_batch= and batch=: give one of them")
    with_plan = click.get_current_context().params["trt"]
    return ExportOptions(
        precision=precision,
        target=target or ("trt" if with_plan else ExportOptions.target),
        backend=backend,
        batch=batch or (fixed_batch, fixed_batch, fixed_batch),
        grid_output=not no_grid,
        verify=not no_verify,
        allow_random_weights=allow_random_weights,
    )


graph_options = gathered(
    "graph",
    _graph,
    click.option(
        "--precision",
        type=Entry(PRECISIONS),
        default=ExportOptions.precision,
        show_default=True,
        help=f"Written into the graph. {' '.join(map(_explained, PRECISIONS.values()))}",
    ),
    click.option(
        "--for",
        "target",
        type=click.Choice(TARGETS),
        help="Which int8 form; the default is trt with --trt, else cpu.",
    ),
    click.option(
        "--backend",
        type=click.Choice(SESSIONS),
        default=ExportOptions.backend,
        show_default=True,
        help="That will run a rounded file: --calibrate takes moments, threshold and drift "
        "baseline through it. auto is ONNX Runtime, and OpenVINO for bf16.",
    ),
    click.option(
        "--batch",
        "fixed_batch",
        type=click.IntRange(1),
        default=ExportOptions.batch[1],
        show_default=True,
        help="Fixed batch size.",
    ),
    click.option("--dynamic-batch", "batch", type=Batch(), help="Any size between."),
    click.option(
        "--no-grid", is_flag=True, help="Leave out the coarse map (drift watch needs it)."
    ),
    click.option("--no-verify", is_flag=True, help="Do not compare with the reference."),
    click.option("--allow-random-weights", is_flag=True, help="For timing only."),
)


def _engine(
    *,
    trt: bool,
    builder: str,
    targets: str,
    workspace_mb: int | None,
    timing_cache: Path | None,
    optimisation_level: int | None,
    version_compatible: bool,
    hardware_compatible: bool,
    dla_core: int | None,
) -> EngineOptions | None:
    if not trt:
        # The batch is the graph's; a plan has the same one.
        names = [item.name for item in fields(EngineOptions) if item.name != "batch"]
        lost = next((name for name in names if given(name)), None)
        if lost:
            raise UsageError(f"{lost}=: a setting of TensorRT plans; add trt=True, or leave it out")
        return None
    return EngineOptions(
        builder=builder,
        targets=tuple(filter(None, targets.split(","))),
        workspace_mb=workspace_mb,
        timing_cache=timing_cache,
        optimisation_level=optimisation_level,
        version_compatible=version_compatible,
        hardware_compatible=hardware_compatible,
        dla_core=dla_core,
    )


engine_options = gathered(
    "engine",
    _engine,
    click.option("--trt", is_flag=True, help="Also build a TensorRT plan beside the ONNX file."),
    click.option(
        "--builder",
        type=Entry(BUILDERS),
        default=EngineOptions.builder,
        show_default=True,
        help="tensorrt: on the device. rtx: TensorRT-RTX, builds without a GPU.",
    ),
    click.option(
        "--target", "targets", metavar="sm86,sm89", default="", help="GPUs to build for (rtx)."
    ),
    click.option("--workspace", "workspace_mb", type=click.IntRange(1), help="MB for the builder."),
    click.option(
        "--timing-cache",
        type=FILE,
        help="Timings of earlier builds: read if it is there, and kept.",
    ),
    click.option("--optimisation-level", type=click.IntRange(0, 5), help="More: slower build."),
    click.option(
        "--version-compatible", is_flag=True, help="Plan loads in later TensorRT versions."
    ),
    click.option("--hardware-compatible", is_flag=True, help="Plan runs on Ampere and newer GPUs."),
    click.option("--dla-core", type=click.IntRange(0), help="Run on this DLA core (Jetson)."),
)


@click.command()
@click.argument("artefact", type=PATH)
@click.option(
    "--out", "-o", type=FILE, help="The ONNX file; the default is ARTEFACT's name with .onnx."
)
@graph_option
@graph_options
@click.option(
    "--calibrate",
    type=_EXISTING,
    help=f"Good images for {_WITH_IMAGES} and for verification: a folder or a data set.",
)
@click.option(
    "--data",
    type=_EXISTING,
    help="Labelled data set: measure PRO before and after, and keep it in the metadata.",
)
@engine_options
@click.option(
    "--triton",
    type=FOLDER,
    help="Also write a model repository for NVIDIA Triton into this folder.",
)
@click.option("--json", "as_json", is_flag=True, help="Print what was made as JSON.")
@trust_option
@quiet_option
def export(
    artefact: Path,
    out: Path | None,
    backbone_graph: Path | None,
    graph: ExportOptions,
    calibrate: Path | None,
    data: Path | None,
    engine: EngineOptions | None,
    triton: Path | None,
    as_json: bool,
    trust: tuple[Path, ...],
    quiet: bool,
) -> None:
    """Turn ARTEFACT into one graph for the device.

    \b
    edgeseg export bottle.edgeseg --out bottle.onnx
    edgeseg export bottle.edgeseg --out b8.onnx --precision int8 --calibrate mvtec_ad/bottle
    edgeseg export bottle.edgeseg --precision int8 --calibrate good/ --backend openvino
    edgeseg export bottle.edgeseg --graph lite0.onnx
    edgeseg export bottle.edgeseg --trt --precision fp16
    edgeseg export bottle.edgeseg --trt --builder rtx --target sm86,sm89
    """
    started = time.perf_counter()
    note, progress = listeners(quiet=quiet)
    # All that was asked for is looked at before the work starts, and before torch is loaded.
    if engine is not None:
        import_package(BUILDERS[engine.builder])
    admit(artefact, trust)
    seed = read_config(artefact).seed
    out = out or artefact.with_suffix(".onnx")
    if out.suffix != ".onnx":
        raise UsageError(f"out={out}: expected a name ending in .onnx")
    good, labelled = (
        open_dataset(folder, seed=seed) if folder else None for folder in (calibrate, data)
    )
    check_writable(out)
    if backbone_graph is not None or find_spec("torch") is None:
        _check_alone(graph, good, labelled, engine, triton)
        exported = _written(artefact, out, backbone_graph, graph, note=note)
    else:
        exported = _export(artefact, out, graph, good, labelled, note=note, progress=progress)
    facts = _facts(exported) | _build(exported, engine, triton)
    if triton:
        note(f"wrote {facts['triton']}")
    if as_json:
        click.echo(json.dumps(facts, indent=2, sort_keys=True, allow_nan=False))
    model = out.with_suffix(".plan") if engine else out
    note_stale(model, note)
    note(
        f"wrote {model} ({size_text(model.stat().st_size)}) in "
        f"{time.perf_counter() - started:.1f} s; "
        f"next: edgeseg stream --model {model}{_backend(exported)} --source 0"
    )


def _check_alone(graph: ExportOptions, *others: object) -> None:
    """Refuse what only a new graph could have."""
    plain = ExportOptions(allow_random_weights=graph.allow_random_weights)
    if graph != plain or any(other is not None for other in others):
        raise UsageError(
            "graph=: a model is written into it as it is, in fp32 and one frame at a time; leave "
            "the other options out, or export on a workstation"
        )


def _written(
    artefact: Path, out: Path, graph: Path | None, options: ExportOptions, *, note: Note
) -> "Exported":
    """The model in a backbone's graph: neither torch nor onnx is needed."""
    from edgeseg.export.exported import Exported
    from edgeseg.fitting.graph.model_writing import write_model_of_file

    through, metadata = write_model_of_file(
        artefact,
        out,
        graph=graph,
        allow_random_weights=options.allow_random_weights,
        note=note,
    )
    report = {"precision": f"all {options.precision}", "graph": str(through)}
    return Exported(path=out, metadata=metadata, report=report, agreements=())


def _export(
    artefact: Path,
    out: Path,
    graph: ExportOptions,
    good: Dataset | None,
    labelled: Dataset | None,
    *,
    note: Note,
    progress: Progress,
) -> "Exported":
    """Write the verified graph, which knows its accuracy on labelled images."""
    from edgeseg.artefact.artefact import load_artefact
    from edgeseg.export.onnx_export import export_onnx

    # Moments are for going on fitting: of a large grid they are a gigabyte that nobody needs here.
    loaded = replace(load_artefact(artefact, note=note), moments=None)
    exported = export_onnx(
        loaded,
        out,
        options=graph,
        artefact_path=artefact,
        good=good,
        labelled=labelled,
        note=note,
        progress=progress,
    )
    note(f"precision: {exported.report['precision']}")
    if "calibrated_in" in exported.report:
        note(_calibrated(exported.report["calibrated_in"]))
    return exported


def _calibrated(backend: str) -> str:
    from edgeseg.export.sessions import NAMES

    return (
        f"threshold and drift baseline are of {NAMES[backend]}; for another backend or computer: "
        "edgeseg calibrate MODEL GOOD_IMAGES --backend NAME"
    )


def _backend(exported: "Exported") -> str:
    """What a stream has to be told: `auto` never takes OpenVINO."""
    return " --backend openvino" if exported.metadata.calibrated_in == "openvino" else ""


def _facts(exported: "Exported") -> dict[str, Any]:
    return {
        "onnx": str(exported.path),
        "onnx_bytes": exported.path.stat().st_size,
        "report": exported.report,
        "agreement": [row.to_dict() for row in exported.agreements],
    }


def _build(
    exported: "Exported", engine: EngineOptions | None, triton: Path | None
) -> dict[str, Any]:
    """The plan and Triton's repository, as far as they were asked for."""
    facts: dict[str, Any] = {}
    served: tuple[Path, ModelMetadata] = (exported.path, exported.metadata)
    if engine is not None:
        from edgeseg.export.engine.build import build_engine

        plan = exported.path.with_suffix(".plan")
        metadata = build_engine(
            exported.path, plan, metadata=replace(exported.metadata, plan=None), options=engine
        )
        facts = {"plan": str(plan), "plan_bytes": plan.stat().st_size}
        facts["build"] = asdict(metadata.plan_facts)
        # Triton loads plans of TensorRT, not of TensorRT-RTX: those are served as ONNX.
        if engine.builder == "tensorrt":
            served = (plan, metadata)
    if triton is not None:
        from edgeseg.export.triton_repository import write_triton

        path, metadata = served
        folder = write_triton(path, triton, metadata=metadata, name=exported.path.stem)
        facts["triton"] = str(folder)
    return facts
