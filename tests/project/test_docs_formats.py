"""docs/formats.md names every key that the code writes, and no other."""

import json
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import safe_open

from edgeseg.base.progress import ignore
from edgeseg.config import FitConfig
from edgeseg.decision.judgement import JudgedPart, parts_facts
from edgeseg.decision.metric_registry import stored_metrics
from edgeseg.decision.prediction import Region
from edgeseg.decision.score_origin import ThresholdChoice
from edgeseg.decision.why import Why
from edgeseg.fitting import checkpoint
from edgeseg.fitting.graph import graph_facts
from edgeseg.fitting.known_kinds import make_kinds
from edgeseg.fitting.parallel import shards
from edgeseg.model.artefact import Artefact, save_artefact
from edgeseg.model.factors import MapFactors
from edgeseg.model.known_directions import KnownDefects, KnownDirections
from edgeseg.model.model_metadata import describe_model
from edgeseg.modelfile import header as artefact_header
from edgeseg.modelfile import metadata, signature
from edgeseg.modelfile.known_kinds import KnownFacts, KnownKind
from edgeseg.modelfile.metadata import ModelMetadata
from edgeseg.runtime.backends.split_facts import SplitFacts, TapShape
from edgeseg.runtime.drift import sink as driftsink
from edgeseg.runtime.drift.watch import DriftWatch
from edgeseg.runtime.events import records
from edgeseg.runtime.recipes.approval import Approval, write_approval
from edgeseg.runtime.recipes.changeover import RecipeEvent
from edgeseg.runtime.recipes.check_record import CheckRecord
from edgeseg.runtime.recipes.golden_check import approve, check_golden
from edgeseg.runtime.recipes.open_judge import open_judge
from edgeseg.runtime.run.line import AnsweredTrigger
from edgeseg.runtime.scoring import report
from edgeseg.runtime.sinks import event_log
from edgeseg.runtime.sinks.counters import Counts, Period, ShiftEnd
from edgeseg.runtime.station.records import (
    Inspection,
    Job,
    StationResult,
    TriggerEvent,
    variant_facts,
)
from edgeseg.vision.geometry import Geometry, Roi
from edgeseg.vision.images import write_image
from tests.support import scored_frames as runtime_frames
from tests.support.brightness_model import brightness_metadata, write_brightness_model
from tests.support.commands import succeed
from tests.support.documents import keys_of, section, text_of
from tests.support.recipe_folders import CPU, new_recipe, part
from tests.support.small_graphs import write_graph

FORMATS = text_of("docs/formats.md")
NAMES = ("red", "blue")  # of variants
PARTS = (JudgedPart(box_xywh=(1, 2, 3, 4), degrees=5.0, score=0.1, verdict="good"),)
SMALLEST = {"px": 12, "cell_px": 8.0, "scores": [1.0]}
ROWS = np.eye(4, dtype=np.float32)
KINDS = make_kinds(ROWS, ["dent", "dent", "scratch", "scratch"], projection=ROWS)
KNOWN = KnownDefects(
    learned=KnownDirections(directions=ROWS, share=0.1),
    facts=KnownFacts(
        share=0.1,
        threshold_before=1.0,
        kinds=(KnownKind(kind="dent", pictures=2, found_before=1, found=2),),
    ),
)
TOLD = Region(
    box_xywh=(1, 2, 3, 4),
    area_px=12,
    peak=9.0,
    kind=KINDS.nearest(ROWS[0]),
    why=Why(layer="texture", share=0.4, change="darker"),
)
CHOICE = ThresholdChoice(by="rate", number=0.02)
ACCURACY = {
    **{metric.key: 0.5 for metric in stored_metrics()},
    **{"dataset": "plate", "images": 5, "anomalies": 2},
}


def paths(value: Any, *, open_maps: set[str], at: str = "") -> set[str]:
    """Keys of nested JSON as the document writes them."""
    if at in open_maps and (value is None or isinstance(value, dict)):
        return {f"{at}.*"}
    if isinstance(value, dict):
        below = ((f"{at}.{key}" if at else key, inner) for key, inner in value.items())
        return {path for key, inner in below for path in paths(inner, open_maps=open_maps, at=key)}
    if isinstance(value, list) and value and isinstance(value[0], dict):
        items = (paths(item, open_maps=open_maps, at=f"{at}[]") for item in value)
        return {path for item in items for path in item}
    return {at}


def assert_documented(heading: str, *examples: dict[str, Any]) -> None:
    """The table names what stands in the examples together."""
    named = keys_of(FORMATS, heading)
    assert len(named) == len(set(named)), "a key stands twice"
    open_maps = {key.removesuffix(".*") for key in named if key.endswith(".*")}
    written = {path for value in examples for path in paths(value, open_maps=open_maps)}
    undocumented, unwritten = written - set(named), set(named) - written
    assert sorted(undocumented) == [], f"missing in docs/formats.md under {heading!r}"
    assert sorted(unwritten) == [], f"in docs/formats.md under {heading!r}, and not written"


def test_header_of_the_artefact(small_artefact: Artefact) -> None:
    geometry = Geometry(camera_hw=(96, 96), roi=Roi(x=0, y=0, w=64, h=64))
    looking = small_artefact.config.with_options({"geometry": geometry, "variants": NAMES})
    told = small_artefact.data | {"group_by": "folder", "smallest": SMALLEST}
    chosen = replace(small_artefact.calibration, choice=CHOICE)
    changed = replace(small_artefact, config=looking, data=told, calibration=chosen, kinds=KINDS)
    header = json.loads(json.dumps(replace(changed, known=KNOWN).header()))
    assert_documented("Header of the artefact", header | {"accuracy": [ACCURACY]})
    assert set(header["config"]) == {item.name for item in fields(FitConfig)}


def test_tensors_of_the_artefact(small_artefact: Artefact, tmp_path: Path) -> None:
    calibration = small_artefact.calibration
    good = calibration.good
    groups = np.zeros(good.count, np.float32)
    copies = replace(calibration, good=replace(good, groups=groups, shown_grids=good.grids))
    factors = small_artefact.factors
    shown = MapFactors(weight=factors.factor[:, 0], factor=factors.factor)
    means = np.stack([factors.mean] * len(NAMES))
    several = replace(factors, variant_means=means, shown=shown)
    artefact = replace(small_artefact, calibration=copies, factors=several, known=KNOWN)
    save_artefact(artefact, tmp_path / "m.edgeseg")
    with safe_open(tmp_path / "m.edgeseg", framework="np") as file:
        names = {name.split(".")[0] + ".*" if "backbone." in name else name for name in file.keys()}  # noqa: SIM118
    assert names == set(keys_of(FORMATS, "Tensors of the artefact"))


def test_accuracy_is_what_an_evaluation_stores(artefact_copy: Path, plate: Path) -> None:
    succeed("eval", artefact_copy, plate, "--store", "-q")
    (entry,) = artefact_header.read_header(artefact_copy)["accuracy"]
    assert set(entry) == set(ACCURACY)


def test_facts_of_a_half() -> None:
    tap = TapShape(name="tap_1", shape=(1, 2, 3, 4))
    facts = SplitFacts(
        half="head", backbone_sha256="0", pixels=tap, offset=(0.0, 0.0, 0.0), taps=(tap,)
    )
    assert_documented("Facts of a half", json.loads(json.dumps(asdict(facts))))


def plan_of(folder: Path) -> dict[str, Any]:
    """What a real build says of its plan."""
    pytest.importorskip("tensorrt_rtx", reason="needs TensorRT-RTX: pip install edgeseg[trt-rtx]")
    from edgeseg.export.engine.build import build_engine
    from edgeseg.export.engine.options import EngineOptions

    told = build_engine(
        folder / "small.onnx",
        folder / "small.plan",
        metadata=write_graph(folder / "small.onnx"),
        options=EngineOptions(builder="rtx", targets=("sm86",)),
    )
    assert told.plan is not None
    return told.plan


def test_metadata_of_the_graph(small_artefact: Artefact, tmp_path: Path) -> None:
    tiled = small_artefact.config.with_options({"frame_hw": (192, 192)})
    told = describe_model(
        replace(
            small_artefact,
            config=tiled,
            calibration=replace(small_artefact.calibration, choice=CHOICE),
            kinds=KINDS,
            known=KNOWN,
        ),
        artefact_sha256="0" * 64,
        precision="fp32",
        target="cpu",
        batch=(1, 1, 1),
        outputs=["map", "score", "grid"],
    )
    decision = metadata.Decision(
        when="2026-01-02T03:04:05Z", action="threshold", rule="", images=9, before=1.0, after=2.0
    )
    only_sidecar = {
        "onnx_sha256": "0" * 64,
        "plan": asdict(plan_of(tmp_path)),
        "history": [asdict(decision)],
        "ignored_here": [((0.0, 0.0), (9.0, 0.0), (9.0, 9.0))],
    }
    figures = ACCURACY | {metadata.NUMERICS: "fp32"}
    assert_documented(
        "Metadata of the graph",
        json.loads(json.dumps(asdict(told))) | {"accuracy": [figures]} | only_sidecar,
    )
    rows = section(FORMATS, "Metadata of the graph").splitlines()
    starred = {row.split("`")[1].split(".")[0].removesuffix("[]") for row in rows if "| *" in row}
    assert starred == set(only_sidecar), "the rest stands in the graph too"
    assert starred < {item.name for item in fields(ModelMetadata)}


@pytest.fixture(scope="module")
def streamed(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[dict[str, Any]], Any]:
    """Events and the report of one run."""
    folder = tmp_path_factory.mktemp("stream")
    write_brightness_model(folder / "m.onnx", metadata=brightness_metadata(threshold=90.0))
    log, told = folder / "events.jsonl", folder / "latency.json"
    source = "synthetic:fps=0,frames=3,defects=1,height=64,width=96"
    outputs = ("--events", log, "--report", told, "--threads", 1, "--backend", "cpu")
    succeed("stream", "--model", folder / "m.onnx", "--source", source, *outputs)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    return lines, json.loads(told.read_text())


def test_events(streamed: tuple[list[dict[str, Any]], Any]) -> None:
    lines, report_of_run = streamed
    by_kind = {line["event"]: line for line in lines}
    assert set(by_kind) == {"run_start", "frame", "source_open", "source_end", "run_end"}
    assert by_kind["frame"]["regions"], "an example with regions"
    assert_documented("Event run_start", by_kind["run_start"])
    told = {"regions": [by_kind["frame"]["regions"][0] | TOLD.explanation_facts()]}
    others = variant_facts("red") | parts_facts(PARTS) | told
    assert_documented("Event frame", by_kind["frame"] | others)
    sources = "Event source_open, source_lost, source_back, source_end, frame_lost"
    assert_documented(sources, by_kind["source_open"], by_kind["source_end"])
    assert set(by_kind["run_end"]) == {*report_of_run, "event"}


def test_event_of_a_result() -> None:
    trigger = TriggerEvent(trigger_id=1, origin="x", monotonic_ns=0, wall_s=0.0, job=Job())
    seen = Inspection(
        verdict="defect",
        score=1.0,
        threshold=0.5,
        box_xywh=(1, 2, 3, 4),
        frame_index=0,
        variant="red",
        strongest=TOLD,
        parts=PARTS,
    )
    result = StationResult(trigger=trigger, inspection=seen, wall_s=0.0, latency_ms=1.0)
    assert_documented("Event result", AnsweredTrigger(result).facts())


def test_event_of_a_mended_log() -> None:
    assert_documented("Event log_mended", event_log.repair_event(17))


def test_event_of_drift() -> None:
    watch = DriftWatch(brightness_metadata().drift)
    event = driftsink.DriftChange(result=runtime_frames.make_result(), state=watch.state).facts()
    assert_documented("Event drift_warning, drift_over", event)


def test_events_of_recipes() -> None:
    facts = (
        {"seconds": 0.1, "waited": 0.05, "warm": True},
        {"passed": True, "problems": []},
        {"model_sha256": "0" * 64},
        {"reason": "damaged"},
    )
    heading = "Event changeover, changeover_failed, golden_check, model_swapped, model_refused"
    events = (
        RecipeEvent(kind="changeover", recipe="bottle", number=1, details=each) for each in facts
    )
    assert_documented(heading, *(event.facts() for event in events))


def test_golden_check(tmp_path: Path) -> None:
    recipe = new_recipe(tmp_path / "bottle")
    write_image(recipe.golden / "master" / "0.png", part(150))
    with open_judge(recipe, CPU, note=ignore) as judge:
        expected = approve(judge)
        write_approval(recipe, expected)
        record = check_golden(judge, live=[part(150)])
    assert_documented("Keys of expected.json", json.loads(json.dumps(asdict(expected))))
    assert_documented("Keys of a golden check", json.loads(json.dumps(record.facts())))


def test_event_of_a_shift() -> None:
    event = ShiftEnd(ended=Period(begun_s=0.0).plus("good", ""), wall_s=1.0).facts()
    assert_documented("Event shift_end", event)


def test_latency_report(streamed: tuple[list[dict[str, Any]], Any]) -> None:
    assert_documented("Keys of the latency report", streamed[1])


@pytest.mark.parametrize(
    ("heading", "number"),
    [
        ("Header of the artefact", artefact_header.SCHEMA),
        ("Metadata of the graph", metadata.SCHEMA),
        ("Events: events.jsonl", records.SCHEMA),
        ("Keys of the latency report", report.SCHEMA),
    ],
)
def test_schema_numbers(heading: str, number: int) -> None:
    text = section(FORMATS, heading)
    assert f"| `schema` | {number} |" in text or f"`schema` is {number}." in text


@pytest.mark.parametrize(
    ("file", "number"),
    [
        ("`part.edgeseg`", artefact_header.SCHEMA),
        ("a shard", shards.SCHEMA),
        ("a shard", checkpoint.SCHEMA),
        ("a backbone's graph", graph_facts.SCHEMA),
        ("`part.onnx` with", metadata.SCHEMA),
        ("`part.plan` with", metadata.SCHEMA),
        ("`part.onnx.sig`", signature.SCHEMA),
        ("`events.jsonl`", records.SCHEMA),
        ("`expected.json`", Approval.schema),
        ("`expected.json`", CheckRecord.schema),
        ("`counters.json`", Counts.schema),
        ("`latency.json`", report.SCHEMA),
    ],
)
def test_the_schema_of_every_file(file: str, number: int) -> None:
    (row,) = (line for line in FORMATS.splitlines() if line.startswith(f"| {file}"))
    assert row.split(" | ")[1] == str(number)
