"""Compile a graph into a TensorRT or TensorRT-RTX plan, with a JSON that says where it runs."""

import gc
import hashlib
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from edgeseg.base.errors import ExportError, UsageError
from edgeseg.base.files import file_sha256, write_target
from edgeseg.base.messages import Setting
from edgeseg.export.engine.options import BUILDERS, EngineOptions
from edgeseg.export.engine.packages import (
    Gpu,
    find_gpu,
    import_package,
    make_log,
    no_gpu,
    parser_failure,
)
from edgeseg.export.engine.settings import (
    Batch,
    Workbench,
    add_profile,
    configure,
    save_timing_cache,
)
from edgeseg.modelfile.metadata import PLAN_SUFFIXES, ModelMetadata, PlanFacts
from edgeseg.modelfile.precisions import PRECISIONS, precision_spec
from edgeseg.modelfile.versions import replacing
from edgeseg.runtime.backends.model_file import stage_sidecar

# The oldest GPU that a hardware-compatible plan runs on, whichever GPU built it.
_AMPERE = "sm80"
_ON_DLA = [precision.name for precision in PRECISIONS.values() if precision.runs_on_dla]


def build_engine(
    onnx_path: Path, plan_path: Path, *, metadata: ModelMetadata, options: EngineOptions
) -> ModelMetadata:
    """Compile a graph; write the raw plan and its sidecar; return what the sidecar says."""
    onnx_sha256 = _check_files(onnx_path, plan_path, metadata)
    if options.dla_core is not None and not precision_spec(metadata.precision).runs_on_dla:
        raise ExportError(
            f"{onnx_path}: {metadata.precision}, and a DLA core computes in "
            f"{' and '.join(_ON_DLA)}; export it with ",
            Setting("precision", " or ".join(_ON_DLA)),
        )
    package = import_package(BUILDERS[options.builder])
    gpu = find_gpu() if options.builder == "tensorrt" else None
    bench = _open(package, onnx_path, metadata, options)
    batch = _choose_batch(bench.network, onnx_path, metadata, options)
    configure(bench, options)
    add_profile(bench, batch)
    started = time.perf_counter()
    plan = _compile(bench, onnx_path, options)
    seconds = time.perf_counter() - started
    targets, portable = _runs_on(options, gpu)
    described = replace(
        metadata,
        input=replace(metadata.input, batch=batch),
        onnx_sha256=onnx_sha256,
        plan=PlanFacts(
            builder=options.builder,
            builder_version=str(package.__version__),
            targets=targets,
            gpu=gpu.name if gpu else None,
            version_compatible=options.version_compatible,
            hardware_compatible=portable,
            workspace_mb=options.workspace_mb,
            optimisation_level=options.optimisation_level,
            dla_core=options.dla_core,
            tf32=options.tf32,
            precision=metadata.precision,
            build_seconds=round(seconds, 3),
            plan_sha256=hashlib.sha256(plan).hexdigest(),
        ),
    )
    target = write_target(plan_path)
    with replacing(target.parent) as change:
        change.path(target.name).write_bytes(plan)
        stage_sidecar(change, target.name, described)
    if options.timing_cache is not None:
        save_timing_cache(bench.config, options.timing_cache)
    return described


def _check_files(onnx_path: Path, plan_path: Path, metadata: ModelMetadata) -> str:
    """Check that three files can share one name, and return the hash of the graph."""
    if plan_path.suffix not in PLAN_SUFFIXES:
        raise UsageError(f"{plan_path}: expected a name that ends in {' or '.join(PLAN_SUFFIXES)}")
    if not onnx_path.is_file():
        raise ExportError(f"{onnx_path}: no such file; make it with `edgeseg export`")
    digest = file_sha256(onnx_path)
    if metadata.onnx_sha256 not in (None, digest):
        raise ExportError(
            f"{onnx_path}: SHA-256 {digest[:12]}..., expected {str(metadata.onnx_sha256)[:12]}... "
            "as in its metadata; export it again"
        )
    # NAME.json describes both NAME.plan and NAME.onnx: they must be of the same graph.
    beside = plan_path.with_suffix(".onnx")
    if beside.is_file() and file_sha256(beside) != digest:
        raise ExportError(
            f"{plan_path}: {beside.name} beside it is another graph than {onnx_path}, and they "
            f"would share {beside.with_suffix('.json').name}; choose another name"
        )
    return digest


def _open(
    package: Any, onnx_path: Path, metadata: ModelMetadata, options: EngineOptions
) -> Workbench:
    """Create a builder and parse the graph into it."""
    log = make_log(package)
    # The constructor holds TensorRT's lock while it logs. Python may collect garbage there, and a
    # builder that a failed build has left in it would wait for that lock for ever.
    gc.collect()
    try:
        builder = package.Builder(log)
    except TypeError:  # how the bindings say that the constructor returned nothing
        raise no_gpu(log.errors()) from None
    # TensorRT 10 takes precision from the graph only if told so; later versions always do.
    strongly = getattr(package.NetworkDefinitionCreationFlag, "STRONGLY_TYPED", None)
    network = builder.create_network(0 if strongly is None else 1 << int(strongly))
    parser = package.OnnxParser(network, log)
    if not parser.parse_from_file(str(onnx_path)):  # a path, since weights may lie beside it
        raise parser_failure(
            onnx_path, BUILDERS[options.builder], parser, log, made_for=metadata.target
        )
    return Workbench(
        package=package,
        log=log,
        builder=builder,
        network=network,
        parser=parser,
        config=builder.create_builder_config(),
    )


def _compile(bench: Workbench, onnx_path: Path, options: EngineOptions) -> memoryview:
    plan = bench.builder.build_serialized_network(bench.network, bench.config)
    if plan is None:
        raise ExportError(
            f"{onnx_path}: {BUILDERS[options.builder].name} {bench.package.__version__} built "
            f"nothing: {bench.log.errors()}"
        )
    return memoryview(plan)


def _choose_batch(
    network: Any, onnx_path: Path, metadata: ModelMetadata, options: EngineOptions
) -> Batch:
    """Choose the plan's batch sizes, after comparing the parsed graph with its metadata."""
    inputs = [network.get_input(index) for index in range(network.num_inputs)]
    shapes = {tensor.name: tuple(tensor.shape) for tensor in inputs}  # [N, H, W, 3]
    outputs = {network.get_output(index).name for index in range(network.num_outputs)}
    name = metadata.input.name
    # The parser reads some files that are not ONNX as an empty graph, and calls it a success.
    if shapes.get(name, ())[1:] != (*metadata.size_hw, 3) or set(metadata.outputs) - outputs:
        raise ExportError(
            f"{onnx_path}: inputs {shapes} and outputs {sorted(outputs)}, expected {name} of "
            f"{metadata.size_hw} and {metadata.outputs} as in its metadata; export it again"
        )
    low, likely, high = options.batch or metadata.input.batch
    static = shapes[name][0]
    if static > 0 and (low, likely, high) != (static, static, static):
        raise ExportError(
            f"{onnx_path}: a static batch of {static}, and {(low, likely, high)} was asked "
            "for; export it with ",
            Setting("batch", (low, likely, high)),
        )
    if low != high and options.dla_core is not None:
        raise UsageError(
            Setting("batch", (low, likely, high)),
            ": a DLA core takes one size alone; use ",
            Setting("batch", (high,) * 3),
        )
    return int(low), int(likely), int(high)


def _runs_on(options: EngineOptions, gpu: Gpu | None) -> tuple[tuple[str, ...], bool]:
    """Return the GPUs that a plan is for, and whether newer ones run it too."""
    targets, portable = tuple(options.targets), options.hardware_compatible
    if gpu is not None:
        targets = (_AMPERE if options.hardware_compatible else gpu.capability,)
    elif not targets:
        portable = True
    return targets, portable
