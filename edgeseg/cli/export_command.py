"""`edgeseg export`."""

import json
import time
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgeseg.base.errors import UsageError
from edgeseg.base.files import check_writable, size_text
from edgeseg.base.messages import Setting
from edgeseg.base.options import (
    FILE,
    FOLDER,
    PATH,
    Numbers,
    Shared,
    command_line,
    listeners,
    was_typed,
)
from edgeseg.base.progress import Note, Progress
from edgeseg.base.typed_options import GroupedCommand, same_as, takes, typed
from edgeseg.cli.needs import GRAPHS, check_fit_needs
from edgeseg.data.datasets import Dataset, open_dataset
from edgeseg.export.engine.options import BUILDERS, EngineOptions
from edgeseg.export.engine.packages import import_package
from edgeseg.export.options import ExportOptions
from edgeseg.modelfile.header import read_config
from edgeseg.modelfile.metadata import ModelMetadata
from edgeseg.modelfile.precisions import PRECISIONS
from edgeseg.modelfile.signature import admit, note_stale

if TYPE_CHECKING:
    from edgeseg.export.exported import Exported

GRAPH, IMAGES, PLAN, RUN = "the graph", "images", "the TensorRT plan", "the run"
GROUPS = (GRAPH, IMAGES, PLAN, RUN)  # of the help, in this order
_EXISTING = click.Path(path_type=Path, exists=True, file_okay=False)
_WITH_IMAGES = " and ".join(p.name for p in PRECISIONS.values() if p.needs_images)


class BatchRange(Numbers):
    """The option's type for three batch sizes: min,opt,max."""

    def __init__(self) -> None:
        super().__init__("MIN,OPT,MAX", sign=",", counts=(3,), expected="min,opt,max such as 1,4,8")

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, int, int]:
        """Convert a text to three numbers in order."""
        low, likely, high = super().convert(value, param, ctx)
        if not 1 <= low <= likely <= high:
            self.fail(f"{value!r}: expected 1 <= min <= opt <= max", param, ctx)
        return low, likely, high


@dataclass(frozen=True, kw_only=True)
class ExportWishes:
    """Options of `edgeseg export` that are not settings of the graph or the plan."""

    out: Path | None = typed(
        None,
        "Where to write the ONNX file.  [default: ARTEFACT's name with .onnx]",
        kind=FILE,
        flags=("--out", "-o"),
    )
    backbone_graph: Path | None = same_as(Shared, "backbone_graph", group=GRAPH)
    fixed_batch: int = typed(
        ExportOptions.batch[1],
        "Frames in a batch.",
        kind=click.IntRange(1),
        flags=("--batch",),
        group=GRAPH,
    )
    batch: tuple[int, int, int] | None = typed(
        None,
        "Let a batch have any size from MIN to MAX, and be fastest at OPT, such as 1,4,8.",
        kind=BatchRange(),
        flags=("--dynamic-batch",),
        group=GRAPH,
    )
    calibrate: Path | None = typed(
        None,
        f"Good images for {_WITH_IMAGES} and for verification: a folder or a data set.",
        kind=_EXISTING,
        group=IMAGES,
    )
    data: Path | None = typed(
        None,
        "Labelled data set: measure accuracy before and after the export, and store it.",
        kind=_EXISTING,
        group=IMAGES,
    )
    trt: bool = typed(False, "Also build a TensorRT plan beside the ONNX file.", group=PLAN)
    triton: Path | None = typed(
        None, "Also write a model repository for NVIDIA Triton into this folder.", kind=FOLDER
    )
    as_json: bool = typed(
        False, "Print the files and the figures of the export as JSON.", flags=("--json",)
    )
    trust: tuple[Path, ...] = same_as(Shared, "trust")
    quiet: bool = same_as(Shared, "quiet")

    def graph(self, options: ExportOptions) -> ExportOptions:
        """Add to the settings of the graph its batch, and TensorRT's form where a plan is built."""
        if self.batch and was_typed("fixed_batch"):
            raise UsageError(
                Setting("fixed_batch"), " and ", Setting("batch"), ": give one of them"
            )
        if options.split and (self.trt or self.triton):
            raise UsageError(
                Setting("split", True),
                ": for accelerators that take a part of the graph; TensorRT and Triton take the "
                "whole, leave one of them out",
            )
        if self.trt and not was_typed("target"):
            options = replace(options, target="trt")
        fixed = (self.fixed_batch, self.fixed_batch, self.fixed_batch)
        return replace(options, batch=self.batch or fixed)


def _engine_options(**values: Any) -> EngineOptions | None:
    """Return the settings of the TensorRT builder; None without --trt."""
    if click.get_current_context().params["trt"]:
        return EngineOptions(**values)
    lost = next(filter(was_typed, values), None)
    if lost:
        raise UsageError(
            Setting(lost),
            ": a setting of TensorRT plans; add ",
            Setting("trt", True),
            ", or leave it out",
        )
    return None


@click.command(cls=GroupedCommand, groups=GROUPS)
@click.argument("artefact", type=PATH)
@takes("graph", ExportOptions, group=GRAPH)
@takes("wishes", ExportWishes, group=RUN)
@takes("engine", EngineOptions, made=_engine_options, group=PLAN)
def export(
    artefact: Path, wishes: ExportWishes, graph: ExportOptions, engine: EngineOptions | None
) -> None:
    """Turn ARTEFACT into one graph for the device.

    The graph takes frames as the camera gives them, and holds the backbone, the Gaussians and the
    score. It is compared with the fitted model before it is written.

    \b
    edgeseg export bottle.edgeseg --out bottle.onnx
    edgeseg export bottle.edgeseg --out b8.onnx --precision int8 --calibrate mvtec_ad/bottle
    edgeseg export bottle.edgeseg --precision int8 --calibrate good/ --backend openvino
    edgeseg export bottle.edgeseg --graph lite1.onnx
    edgeseg export bottle.edgeseg --split
    edgeseg export bottle.edgeseg --trt --precision fp16
    edgeseg export bottle.edgeseg --trt --builder rtx --target sm86,sm89
    """
    started = time.perf_counter()
    note, progress = listeners(quiet=wishes.quiet)
    graph = wishes.graph(graph)
    # All that was asked for is looked at before the work starts, and before torch is loaded.
    if engine is not None:
        import_package(BUILDERS[engine.builder])
    admit(artefact, wishes.trust)
    config = read_config(artefact)
    check_fit_needs(config, wishes.backbone_graph, *GRAPHS)
    out = wishes.out or artefact.with_suffix(".onnx")
    if out.suffix != ".onnx":
        raise UsageError(Setting("out", out), ": expected a name ending in .onnx")
    good, labelled = (
        open_dataset(folder, seed=config.seed, variants=bool(config.variants)) if folder else None
        for folder in (wishes.calibrate, wishes.data)
    )
    check_writable(out)
    for line in () if labelled is None else labelled.notes:
        note(line)
    if wishes.backbone_graph is not None or find_spec("torch") is None:
        _check_plain(graph, good, labelled, engine, wishes.triton)
        exported = _write_into_graph(artefact, out, wishes.backbone_graph, graph, note=note)
    else:
        exported = _export(artefact, out, graph, good, labelled, note=note, progress=progress)
    facts = _facts(exported) | _build(exported, engine, wishes.triton)
    if wishes.triton:
        note(f"wrote {facts['triton']}")
    if wishes.as_json:
        click.echo(json.dumps(facts, indent=2, sort_keys=True, allow_nan=False))
    model = out.with_suffix(".plan") if engine else out
    note_stale(model, note)
    if exported.halves is not None:
        note_stale(exported.halves.head, note)
    note(
        f"wrote {model} ({size_text(model.stat().st_size)}) in "
        f"{time.perf_counter() - started:.1f} s; "
        f"next: {command_line('stream', '--model', model, *_backend(exported), '--source', 0)}"
    )


def _check_plain(graph: ExportOptions, *others: object) -> None:
    """Refuse options that a backbone's graph cannot follow."""
    plain = ExportOptions(allow_random_weights=graph.allow_random_weights)
    if graph != plain or any(other is not None for other in others):
        raise UsageError(
            Setting("graph"),
            ": a model is written into it as it is, in fp32 and one frame at a time; leave "
            "the other options out, or export on a workstation",
        )


def _write_into_graph(
    artefact: Path, out: Path, graph: Path | None, options: ExportOptions, *, note: Note
) -> "Exported":
    """Write the model into a backbone's graph; neither torch nor onnx is needed."""
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
    """Trace, verify and write the graph, with its accuracy on labelled images."""
    from edgeseg.export.onnx_export import export_onnx
    from edgeseg.model.artefact import load_artefact

    # Moments are for going on fitting: of a large grid they are a gigabyte that nobody needs here.
    loaded = replace(load_artefact(artefact), moments=None)
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
    if graph.split:
        from edgeseg.export.split_export import export_halves

        halves = export_halves(exported, loaded, good=good, note=note)
        exported = replace(exported, halves=halves)
    note(f"precision: {exported.report['precision']}")
    if "calibrated_in" in exported.report:
        note(_calibration_sentence(exported.report["calibrated_in"]))
    return exported


def _calibration_sentence(backend: str) -> str:
    from edgeseg.export.sessions import NAMES

    return (
        f"threshold and drift baseline are of {NAMES[backend]}; for another backend or computer: "
        "edgeseg calibrate MODEL GOOD_IMAGES --backend NAME"
    )


def _backend(exported: "Exported") -> tuple[str, ...]:
    """Option that `edgeseg stream` needs: `auto` never takes OpenVINO."""
    return ("--backend", "openvino") if exported.metadata.calibrated_in == "openvino" else ()


def _facts(exported: "Exported") -> dict[str, Any]:
    facts = {
        "onnx": str(exported.path),
        "onnx_bytes": exported.path.stat().st_size,
        "report": exported.report,
        "agreement": [row.to_dict() for row in exported.agreements],
    }
    halves = exported.halves
    if halves is not None:
        facts["halves"] = {
            "backbone": str(halves.backbone),
            "head": str(halves.head),
            "agreement": halves.agreement.to_dict(),
        }
    return facts


def _build(
    exported: "Exported", engine: EngineOptions | None, triton: Path | None
) -> dict[str, Any]:
    """Build the plan and Triton's repository, where they were asked for."""
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
