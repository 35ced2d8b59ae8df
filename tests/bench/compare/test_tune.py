"""`edgeseg tune`: what is chosen, what is said of the rest, and a small search that is resumed."""

import csv
import json
import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from click.testing import CliRunner
from onnx import ModelProto
from torch import nn

from edgeseg.base.errors import EdgesegError, ExportError, UsageError
from edgeseg.base.messages import Setting
from edgeseg.base.progress import silent
from edgeseg.bench.compare import grid
from edgeseg.bench.compare.candidates import TuneOptions
from edgeseg.bench.compare.choice import BEST, SLOW, WITHIN, choose
from edgeseg.bench.compare.files import Judgement
from edgeseg.bench.compare.grid import grid_here
from edgeseg.bench.compare.record import ComparedFile
from edgeseg.bench.compare.tune import run_tune
from edgeseg.bench.latency.turns import Schedule
from edgeseg.cli.tune_command import tune
from edgeseg.config import FitConfig
from edgeseg.export import candidates, onnx_export
from edgeseg.export.graph import GraphOptions, build_graph
from edgeseg.export.precision.tolerances import Tolerance
from edgeseg.model.backbones import BACKBONES, BackboneSpec, Tap
from edgeseg.model.reference import ReferenceModel
from edgeseg.modelfile.metadata import ModelMetadata
from edgeseg.runtime.backends.choose import open_session
from edgeseg.runtime.backends.model_file import file_metadata
from edgeseg.runtime.backends.session_options import SessionOptions
from tests.support.commands import fail

QUICK = Schedule(rounds=2, turn=1, warmup=1, streamed=1, fps=1000)


def toy_steps() -> list[tuple[str, nn.Module]]:
    return [
        ("layer1", nn.Conv2d(3, 8, kernel_size=4, stride=4)),
        ("layer2", nn.Conv2d(8, 8, kernel_size=2, stride=2)),
        ("layer3", nn.Conv2d(8, 8, kernel_size=2, stride=2)),
    ]


TOY = BackboneSpec(
    name="toy",
    steps=toy_steps,
    taps=tuple(Tap(module=f"layer{n}", channels=8, stride=2 ** (n + 1)) for n in (1, 2, 3)),
    weights_file="toy-0123abcd.pth",
    url="https://example.org/toy-0123abcd.pth",
)


def row(
    backbone: str, *, recall: float, auroc: float, ms: float, planted: int = 100
) -> ComparedFile:
    return ComparedFile(
        model=backbone,
        precision="int8",
        backend="cpu",
        planted_found=recall,
        planted_auroc=auroc,
        streamed_p95_ms=ms,
        planted=planted,
    )


def test_the_best_is_within_the_budget() -> None:
    rows = [
        row("slow", recall=1.0, auroc=1.0, ms=9.0),
        row("poor", recall=0.2, auroc=0.99, ms=1.0),
        row("good", recall=0.8, auroc=0.9, ms=5.0),
    ]
    states = {each.model: each.state for each in choose(rows, budget_ms=5.0)}
    assert states == {"good": BEST, "poor": WITHIN, "slow": SLOW}
    assert [each.model for each in choose(rows, budget_ms=5.0)] == ["good", "poor", "slow"]
    assert {each.state for each in choose(rows, budget_ms=0.5)} == {SLOW}
    assert choose([], budget_ms=1.0) == []


def test_what_so_few_defects_do_not_tell_apart_is_told_by_auroc() -> None:
    first = row("a", recall=0.80, auroc=0.90, ms=1.0)
    second = row("b", recall=0.77, auroc=0.95, ms=2.0)
    assert choose([first, second], budget_ms=5)[0].model == "b", "0.80 +- 0.04"
    many = [replace(each, planted=10_000) for each in (first, second)]
    assert choose(many, budget_ms=5)[0].model == "a", "0.800 +- 0.004"
    equal = [row("a", recall=0.8, auroc=0.9, ms=2.0), row("b", recall=0.8, auroc=0.9, ms=1.0)]
    assert choose(equal, budget_ms=5)[0].model == "b", "the faster of equals"


@cache
def traced_once(options: GraphOptions) -> list[ModelProto]:
    return []


def traced(model: ReferenceModel, options: GraphOptions, *, size_hw: tuple[int, int]) -> ModelProto:
    """Tracing takes seconds, and all models here are of one shape and one backbone."""
    known = traced_once(options)
    if not known:
        known.append(build_graph(model, options, size_hw=size_hw))
    copied = ModelProto()
    copied.CopyFrom(known[0])
    return copied


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(BACKBONES, "toy", TOY)
    monkeypatch.setattr(onnx_export, "build_graph", traced)
    # Three convolutions that no one trained round coarsely.
    coarse = Tolerance(
        max_error=1, mean_error=1, min_rank_correlation=-1, max_flips=1, head_error=1, max_loss=1
    )
    monkeypatch.setitem(candidates.TOLERANCES, "int8", coarse)


def options(data: Path, **changed: object) -> TuneOptions:
    whole = TuneOptions(
        data=data,
        budget_ms=1000.0,
        backbones=("toy",),
        precisions=("fp32", "int8"),
        backends=("cpu",),
        config=FitConfig(size_hw=(96, 96), k=12, folds=2, false_alarm_rate=0.1),
        planted=6,
        weights="random",
        session=SessionOptions(threads=1),
        schedule=QUICK,
        glance=QUICK,
    )
    return replace(whole, **changed)  # type: ignore[arg-type]


def test_a_search_writes_the_best_model_and_goes_on_where_it_was(
    plate: Path, toy: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines: list[str] = []

    def search(wanted: TuneOptions) -> None:
        lines.clear()
        run_tune(wanted, tmp_path, fresh=False, note=lines.append, progress=silent)

    search(options(plate))
    printed = capsys.readouterr().out.splitlines()
    assert [line.split()[:3] for line in printed[1:]] == [
        ["toy", precision, "cpu"] for precision in (re.split(" +", line)[1] for line in printed[1:])
    ]
    with (tmp_path / "table.csv").open(newline="") as file:
        table = list(csv.DictReader(file))
    assert {each["precision"] for each in table} == {"fp32", "int8"}
    assert table[0]["state"] == BEST
    assert (tmp_path / "pareto.png").stat().st_size > 1000
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["name"] == "tune"
    assert any("backend tensorrt: " in note for note in report["notes"])
    best = tmp_path / "best.onnx"
    assert file_metadata(best).precision == table[0]["precision"]
    with open_session(best, SessionOptions(backend="cpu", allow_random_weights=True)) as session:
        judged = Judgement.of(session.metadata)
    assert float(table[0]["planted found"]) == judged.recall
    assert lines[-1].startswith(f"wrote {best} (")
    assert lines[-1].endswith(f"edgeseg stream --model {best} --backend cpu --source 0")

    search(options(plate))
    assert not any(line.startswith("[") for line in lines), "nothing is done twice"
    search(options(plate, precisions=("fp32",)))
    made = [line for line in lines if line.startswith("[")]
    assert [line.partition(":")[0] for line in made] == ["[1 of 1] rounds"], "among fewer files"

    with pytest.raises(EdgesegError) as caught:
        search(options(plate, budget_ms=1e-6, precisions=("fp32",)))
    assert "budget_ms=1e-06: no model is fast enough" in str(caught.value)
    assert any("toy: not fitted, " in line and "4 times the budget" in line for line in lines)
    (tmp_path / "models" / plate.name / "toy-seed0" / "fp32.onnx").unlink()
    with pytest.raises(UsageError, match=r"fp32.onnx: deleted since it was made"):
        search(options(plate, precisions=("fp32",), backends=("openvino",)))


def test_a_rounded_model_is_judged_in_each_backends_own_session(
    plate: Path, toy: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("openvino", reason="needs OpenVINO: pip install edgeseg[openvino]")
    recalls = {None: 0.25, "cpu": 0.5, "openvino": 0.75}

    def judged(metadata: ModelMetadata) -> Judgement:
        recall = recalls[metadata.calibrated_in]
        return Judgement(recall=recall, auroc=0.9, planted=100, good=3)

    monkeypatch.setattr(Judgement, "of", judged)
    lines: list[str] = []
    both = options(plate, backends=("cpu", "openvino"))
    run_tune(both, tmp_path, fresh=False, note=lines.append, progress=silent)
    with (tmp_path / "table.csv").open(newline="") as file:
        table = {
            (row["precision"], row["backend"]): float(row["planted found"])
            for row in csv.DictReader(file)
        }
    assert table == {
        ("fp32", "cpu"): 0.25,
        ("fp32", "openvino"): 0.25,
        ("int8", "cpu"): 0.5,
        ("int8", "openvino"): 0.75,
    }
    assert file_metadata(tmp_path / "best.onnx").calibrated_in == "openvino"
    assert lines[-1].endswith("best.onnx --backend openvino --source 0")


def test_what_the_verification_refuses_is_said(
    plate: Path, toy: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    strict = Tolerance(max_error=0, mean_error=0, min_rank_correlation=2, max_flips=1, max_loss=1)
    monkeypatch.setitem(candidates.TOLERANCES, "int8", strict)
    lines: list[str] = []
    run_tune(options(plate), tmp_path, fresh=False, note=lines.append, progress=silent)
    said = "\n".join(lines)
    refusal = "toy int8 for cpu: refused, int8-cpu.onnx: disagrees with the reference in ONNX"
    assert refusal in said
    assert str(tmp_path) not in (tmp_path / "report.json").read_text()


def test_what_is_not_here_is_named(
    tmp_path: Path, toy: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grid, "BACKBONES", {"toy": TOY})
    monkeypatch.setenv("EDGESEG_WEIGHTS", str(tmp_path))
    everything = options(tmp_path, weights=None, backbones=(), precisions=(), backends=("cpu",))
    with pytest.raises(EdgesegError, match="backbones toy: no weights here; name one to fetch it"):
        grid_here(everything)
    (tmp_path / "toy.pth").touch()

    def no_bfloat(spec: object) -> None:
        if getattr(spec, "arithmetic", "") != "float32":
            raise ExportError(
                Setting("precision", "bf16"), ": this processor has no bfloat16; export elsewhere"
            )

    monkeypatch.setattr(grid, "check_arithmetic", no_bfloat)
    found = grid_here(everything)
    assert (found.backbones, found.precisions, found.backends) == (
        ("toy",),
        ("fp32", "int8"),
        ("cpu",),
    )
    assert set(found.left_out) == {
        "backend tensorrt: not installed.",
        "backend cuda: needs a GPU; not tried.",
        "backend openvino: not asked for.",
        "precision fp16: only GPUs gain by it, and none is tried.",
        "precision bf16: this processor has no bfloat16; export elsewhere.",
    }


def test_mistakes_end_in_one_sentence(tmp_path: Path) -> None:
    zero = fail("tune", tmp_path, "--budget-ms", "0", code=2)
    assert zero == "--budget-ms 0: expected milliseconds above 0"
    assert "no such folder" in fail("tune", tmp_path / "gone", "--budget-ms", "5", code=1)
    help_text = CliRunner().invoke(tune, ["--help"]).output
    assert "edgeseg tune photos/good --budget-ms 5" in help_text
