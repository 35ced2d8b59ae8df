"""`edgeseg bench compare`, `bench peers` and `bench small`: models judged on test images."""

from collections.abc import Sequence
from pathlib import Path

from edgeseg.base.errors import EdgesegError
from edgeseg.base.progress import Note, Progress, silent
from edgeseg.bench.compare.candidates import CompareOptions, OurModel, SmallOptions
from edgeseg.bench.compare.comparison_work import ComparisonWork
from edgeseg.bench.compare.plan import ComparisonPlan
from edgeseg.bench.compare.record import Record
from edgeseg.bench.compare.summary import write_summary
from edgeseg.bench.harness.accuracy import categories_in, open_limited
from edgeseg.bench.harness.machine import describe
from edgeseg.bench.harness.report import Report
from edgeseg.bench.harness.staging import stage
from edgeseg.bench.harness.units import Store
from edgeseg.bench.harness.weights import available, missing_weights_sentence
from edgeseg.bench.latency.timing import timing_notes
from edgeseg.bench.latency.turns import Schedule
from edgeseg.data.datasets import Dataset, open_dataset
from edgeseg.data.synthetic.scene import write_dataset
from edgeseg.runtime.backends.session_options import SessionOptions

PEER_NOTES = (
    "Peers: the same images, the same backbone weights (torchvision's ResNet-18) and the same "
    "metric code; their own model classes, engine, defaults and export. Accuracy is of their raw "
    "maps, before clamping; `exported PRO` is of what their ONNX file answers.",
    "fit: seconds from images on disk to a saved model, without the start of Python; anomalib "
    "without its validation pass. peak: of the process that fits. base: of the same process just "
    "before, mostly imports.",
    "Peers are exported for one frame at a time: with anomalib's default of a free batch, "
    "PatchCore comes out with a batch fixed at two.",
    "p50: feed on the host to outputs on the host. Our graphs take the camera's uint8 frame; "
    "peers take float images, and the conversion (prepare ms) is not counted against them.",
)


def run_compare(
    options: CompareOptions, out: Path, *, fresh: bool, note: Note, progress: Progress = silent
) -> Report:
    """Measure everything and write the report."""
    import torch

    torch.set_num_threads(options.threads)
    facts = describe(threads=options.threads, seeds=tuple(range(options.seeds)))
    models, notes = _usable(options)
    for line in notes:
        note(line)
    work = _work(options, models, out, progress=progress)
    record = work.measure(Store(out, fresh=fresh), schedule=options.schedule, note=note)
    left_out = [f"{each.name}: {line}" for each in work.datasets for line in each.notes]
    notes = [*(PEER_NOTES if options.peers else ()), *notes, *left_out]
    notes += timing_notes(record.timed, note=note)
    facts["versions"] |= _peer_version(record)
    return write_summary(
        record,
        record.rows(),
        out,
        name=options.name,
        title=options.title,
        facts=facts,
        notes=notes,
    )


def _work(
    options: CompareOptions, models: Sequence[OurModel], out: Path, *, progress: Progress = silent
) -> ComparisonWork:
    datasets = [open_limited(path, limit=options.limit) for path in categories_in(options.data)]
    if options.peers is not None:
        datasets = [_stage_dataset(dataset, out, size_hw=options.size_hw) for dataset in datasets]
    plan = ComparisonPlan(
        categories=tuple(dataset.name for dataset in datasets),
        models=tuple(models),
        peers=() if options.peers is None else options.peers.names,
        backends=options.backends,
        seeds=options.seeds,
    )
    return ComparisonWork(
        plan=plan,
        datasets=datasets,
        out=out,
        session=SessionOptions(threads=options.threads),
        peers=options.peers,
        weights=options.weights,
        progress=progress,
        size_hw=options.size_hw,
    )


def _stage_dataset(dataset: Dataset, out: Path, *, size_hw: tuple[int, int]) -> Dataset:
    """Write the copy of a dataset that our models and peers read."""
    return open_dataset(stage(dataset, out / "staged" / dataset.name, size_hw=size_hw).root)


def _usable(options: CompareOptions) -> tuple[list[OurModel], list[str]]:
    """Models whose backbone has weights here, and a note on each other backbone."""
    notes, missing = [], set()
    for backbone in dict.fromkeys(model.config.backbone for model in options.models):
        if available(backbone, weights=options.weights) is None:
            missing.add(backbone)
            notes.append(missing_weights_sentence(backbone))
    if options.weights is not None:
        notes.append("Random weights: only the times mean something.")
    if options.limit is not None:
        notes.append(f"A rehearsal with --limit {options.limit}: no result.")
    usable = [model for model in options.models if model.config.backbone not in missing]
    if not usable and options.peers is None:
        raise EdgesegError(f"nothing to compare: {notes[0]}")
    return usable, notes


def _peer_version(record: Record) -> dict[str, str]:
    """Version of anomalib that ran, in an environment of its own."""
    found = {result["version"] for result in record.done.results.values() if "version" in result}
    return {"anomalib": ", ".join(sorted(found))} if found else {}


def run_small(
    small: SmallOptions, out: Path, *, fresh: bool, note: Note, progress: Progress = silent
) -> Report:
    """Run every step of a comparison on a synthetic part, in minutes."""
    data = out / "staged" / "plate"
    if not (data / "train" / "good").is_dir():
        write_dataset(data, size_hw=small.size_hw, train=small.train, test_good=8, test_defective=2)
    options = CompareOptions(
        data=data,
        models=tuple(
            OurModel.of(small.backbone, preset, small.precisions, size_hw=small.size_hw)
            for preset in small.presets
        ),
        size_hw=small.size_hw,
        weights=small.weights,
        schedule=Schedule(rounds=small.rounds),
        threads=small.threads,
        name="small",
        title="A small benchmark on a synthetic part",
    )
    return run_compare(options, out, fresh=fresh, note=note, progress=progress)
