"""`edgeseg export`."""

import json
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgeseg.cli.fit_command import note, quiet_option
from edgeseg.contract.metadata import ModelMetadata
from edgeseg.errors import UsageError
from edgeseg.export.engine.options import EngineOptions
from edgeseg.files import size_text

if TYPE_CHECKING:
    from edgeseg.artefact.artefact import Artefact
    from edgeseg.export.onnx_export import Exported, ExportOptions

# Options that EngineOptions takes under the same name.
_OF_THE_PLAN = (
    "builder", "workspace_mb", "timing_cache", "optimisation_level", "version_compatible",
    "hardware_compatible", "dla_core",
)  # fmt: skip


def parse_batch(value: str | tuple[int, int, int]) -> tuple[int, int, int]:
    """min,opt,max."""
    if isinstance(value, tuple):
        return value
    parts = value.split(",")
    if len(parts) != 3 or not all(part.strip().isdecimal() for part in parts):
        raise click.BadParameter(f"{value!r}: expected min,opt,max such as 1,4,8")
    low, likely, high = (int(part) for part in parts)
    if not 1 <= low <= likely <= high:
        raise click.BadParameter(f"{value!r}: expected 1 <= min <= opt <= max")
    return low, likely, high


@click.command()
@click.argument("artefact", type=click.Path(path_type=Path))
@click.option(
    "--out",
    "-o",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The ONNX file; the default is ARTEFACT's name with .onnx.",
)
@click.option(
    "--precision",
    type=click.Choice(("fp32", "fp16", "int8")),
    default="fp32",
    show_default=True,
    help="Written into the graph; int8 needs --calibrate.",
)
@click.option(
    "--calibrate",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Good images for int8 and for verification: a folder or a data set.",
)
@click.option(
    "--for",
    "target",
    type=click.Choice(("cpu", "trt")),
    help="Which int8 form; the default is trt with --trt, else cpu.",
)
@click.option("--batch", type=click.IntRange(1), help="Fixed batch size.  [default: 1]")
@click.option("--dynamic-batch", type=parse_batch, metavar="MIN,OPT,MAX", help="Any size between.")
@click.option("--no-grid", is_flag=True, help="Leave out the coarse map (drift watch needs it).")
@click.option("--no-verify", is_flag=True, help="Do not compare with the reference.")
@click.option(
    "--data",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Labelled data set: measure PRO before and after, and keep it in the metadata.",
)
@click.option("--trt", is_flag=True, help="Also build a TensorRT plan beside the ONNX file.")
@click.option(
    "--builder",
    type=click.Choice(("tensorrt", "rtx")),
    help="tensorrt: on the device. rtx: TensorRT-RTX, builds without a GPU.  [default: tensorrt]",
)
@click.option("--target", "targets", metavar="sm86,sm89", help="GPUs to build for (rtx).")
@click.option("--workspace", "workspace_mb", type=click.IntRange(1), help="MB for the builder.")
@click.option(
    "--timing-cache",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Timings of earlier builds: read if it is there, and kept.",
)
@click.option("--optimisation-level", type=click.IntRange(0, 5), help="More: slower build.")
@click.option("--version-compatible", is_flag=True, help="Plan loads in later TensorRT versions.")
@click.option("--hardware-compatible", is_flag=True, help="Plan runs on Ampere and newer GPUs.")
@click.option("--dla-core", type=click.IntRange(0), help="Run on this DLA core (Jetson).")
@click.option(
    "--triton",
    type=click.Path(path_type=Path, file_okay=False),
    help="Also write a model repository for NVIDIA Triton into this folder.",
)
@click.option("--allow-random-weights", is_flag=True, help="For timing only.")
@click.option("--json", "as_json", is_flag=True, help="Print what was made as JSON.")
@quiet_option
def export(
    artefact: Path,
    out: Path | None,
    data: Path | None,
    as_json: bool,
    quiet: bool,
    trt: bool,
    triton: Path | None,
    **options: Any,
) -> None:
    """Turn ARTEFACT into one graph for the device.

    \b
    edgeseg export bottle.edgeseg --out bottle.onnx
    edgeseg export bottle.edgeseg --out b8.onnx --precision int8 --calibrate mvtec_ad/bottle
    edgeseg export bottle.edgeseg --trt --precision fp16
    edgeseg export bottle.edgeseg --trt --builder rtx --target sm86,sm89
    """
    from edgeseg.artefact.artefact import load_artefact

    started = time.perf_counter()
    say = (lambda _: None) if quiet else note
    out = out or artefact.with_suffix(".onnx")
    if out.suffix != ".onnx":
        raise UsageError(f"--out {out}: expected a name ending in .onnx")
    # All that was asked for is looked at before the work starts.
    settings, engine = _graph_settings(options, trt=trt), _engine_settings(options, trt=trt)
    # Moments are for going on fitting: of a large grid they are a gigabyte that nobody needs here.
    loaded = replace(load_artefact(artefact), moments=None)
    exported = _export_onnx(
        loaded, artefact, out, settings, calibrate=options["calibrate"], say=say, quiet=quiet
    )
    if data:
        from edgeseg.export.accuracy import measure_accuracy

        exported = measure_accuracy(exported, loaded, data, say=say)
    facts = _facts(out, exported)
    model_path, served = out, (out, exported.metadata)
    if engine:
        model_path = out.with_suffix(".plan")
        metadata = _build_plan(out, model_path, exported, engine)
        facts |= {"plan": str(model_path), "plan_bytes": model_path.stat().st_size}
        facts["build"] = asdict(metadata.plan_facts)
        # Triton loads plans of TensorRT, not of TensorRT-RTX: those are served as ONNX.
        if engine.builder == "tensorrt":
            served = (model_path, metadata)
    if triton:
        from edgeseg.export.triton_repository import write_triton

        facts["triton"] = str(write_triton(served[0], triton, metadata=served[1], name=out.stem))
        say(f"wrote {facts['triton']}")
    if as_json:
        click.echo(json.dumps(facts, indent=2, sort_keys=True, allow_nan=False))
    say(
        f"wrote {model_path} ({size_text(model_path.stat().st_size)}) in "
        f"{time.perf_counter() - started:.1f} s; "
        f"next: edgeseg stream --model {model_path} --source 0"
    )


def _graph_settings(options: dict[str, Any], *, trt: bool) -> "ExportOptions":
    from edgeseg.export.onnx_export import ExportOptions

    if options["batch"] and options["dynamic_batch"]:
        raise UsageError("--batch and --dynamic-batch: give one of them")
    fixed = options["batch"] or 1
    return ExportOptions(
        precision=options["precision"],
        target=options["target"] or ("trt" if trt else "cpu"),
        batch=options["dynamic_batch"] or (fixed, fixed, fixed),
        grid_output=not options["no_grid"],
        allow_random_weights=options["allow_random_weights"],
        verify=not options["no_verify"],
    )


def _engine_settings(options: dict[str, Any], *, trt: bool) -> EngineOptions | None:
    # Level 0 and core 0 are requests; None and False are not.
    given = {
        name: options[name]
        for name in _OF_THE_PLAN
        if options[name] is not None and options[name] is not False
    }
    targets = tuple(filter(None, (options["targets"] or "").split(",")))
    if trt:
        return EngineOptions(targets=targets, **given)
    if given or targets:
        name = "target" if targets else next(iter(given)).removesuffix("_mb").replace("_", "-")
        raise UsageError(f"--{name}: a setting of TensorRT plans; add --trt, or leave it out")
    return None


def _export_onnx(
    loaded: "Artefact",
    path: Path,
    out: Path,
    settings: "ExportOptions",
    *,
    calibrate: Path | None,
    say: Callable[[str], None],
    quiet: bool,
) -> "Exported":
    from edgeseg.export.onnx_export import export_onnx
    from edgeseg.progress import bar, silent

    exported = export_onnx(
        loaded,
        out,
        options=settings,
        artefact_path=path,
        calibration=_calibration(calibrate, loaded),
        note=say,
        progress=silent if quiet else bar,
    )
    for name, value in exported.report.items():
        say(f"{name}: {value}")
    return exported


def _build_plan(
    out: Path, plan: Path, exported: "Exported", engine: EngineOptions
) -> ModelMetadata:
    from edgeseg.export.engine.build import build_engine

    metadata = replace(exported.metadata, plan=None)
    return build_engine(out, plan, metadata=metadata, options=engine)


def _facts(out: Path, exported: "Exported") -> dict[str, Any]:
    return {
        "onnx": str(out),
        "onnx_bytes": out.stat().st_size,
        "report": exported.report,
        "agreement": [row.to_dict() for row in exported.agreements],
    }


def _calibration(folder: Path | None, loaded: "Artefact") -> Any:
    from edgeseg.data.datasets import open_dataset
    from edgeseg.export.calibration_frames import calibration_frames

    if folder is None:
        return None
    return calibration_frames(open_dataset(folder, seed=loaded.config.seed), loaded.config)
