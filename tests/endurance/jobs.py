"""The commands that write, each with what it finds in its folder and what it may leave there.

A new command that writes is an entry of JOBS; kills and faults then try it.
"""

import hashlib
import json
import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from edgeseg.data.synthetic.scene import SceneGenerator, write_dataset
from tests.endurance.forked import Ended
from tests.endurance.recipe_jobs import (
    is_approved,
    make_recipe_folder,
    recipe_facts,
    replaced_model,
)
from tests.endurance.stream_jobs import hurried, is_whole_log, stream_arguments, stream_facts
from tests.endurance.teach_jobs import KEPT, is_mended, make_projects, model_that_runs

_SIZE = 96
FIT = (
    "--backbone", "mobilenet_v3_small", "--weights", "random", "--size", str(_SIZE), "-k", "16",
    "--rank", "10", "--layers", "1", "--folds", "3", "--false-alarm-rate", "0.1",
    "--planted", "0", "-q",
)  # fmt: skip
_OURS = ("said.txt", "answer.json")  # of the process that runs it
_RANDOM = "--allow-random-weights"
_OPENING = (_RANDOM, "--threads", "1", "--backend", "cpu")
_CAMERA = f"synthetic:fps=0,frames=24,defects=0.5,height={_SIZE},width={_SIZE}"


def command(*words: object) -> None:
    """Run a command of edgeseg in this process; it ends with SystemExit."""
    from edgeseg.cli.group import cli

    cli.main([str(word) for word in words], prog_name="edgeseg")


def succeed(*words: object) -> None:
    """The same, and go on if it went well."""
    try:
        command(*words)
    except SystemExit as end:
        if end.code not in (0, None):
            raise


@dataclass(frozen=True, kw_only=True)
class Job:
    """An entry of JOBS; functions get the folder that the command works in."""

    arguments: Callable[[Path], tuple[object, ...]]
    facts: Callable[[Path], Any]  # of all outputs, as a reader sees them; raises if one is damaged
    prepare: tuple[str, ...]  # files of the bench to begin with, as NAME or NAME=SOURCE
    again: tuple[str, ...] = ()  # added when it is repeated after a kill
    done: str = ""  # what it says when there is nothing left to do, though it fails
    after: Callable[[Path], Any] = lambda at: None  # once the next run has ended
    beside: Callable[[Path], AbstractContextManager[None]] = lambda at: nullcontext()

    def run(self, folder: Path, *more: str, fault: Callable[[], None] = lambda: None) -> None:
        """The command in this process, with whoever acts beside it; ends with SystemExit.

        A fault strikes the command alone, and not what the study itself reads before it.
        """
        words = self.arguments(folder)
        with self.beside(folder):
            fault()
            command(*words, *more)

    def ended_well(self, ended: Ended) -> bool:
        """Whether a repeated run did its work, or found that there was none."""
        return ended.code == 0 or (bool(self.done) and self.done in ended.said)


def make_bench(bench: Path) -> None:
    """Good images, and what earlier runs have left: models old and new, shards, a graph."""
    size_hw = (_SIZE, _SIZE)
    write_dataset(bench / "plate", size_hw=size_hw, train=10, test_good=6, test_defective=1)
    good, more = bench / "plate/train/good", bench / "plate/test/good"
    succeed("fit", good, "--out", bench / "new.edgeseg", *FIT)
    succeed("fit", good, "--out", bench / "old.edgeseg", *FIT, "--seed", 1)
    for index in range(2):
        shard = ("--shard", f"{index}/2", "--out", bench / f"{index}.shard")
        settings = [word for word in FIT if word not in ("--planted", "0")]
        succeed("moments", good, *shard, *settings)
    succeed("export", bench / "old.edgeseg", "--out", bench / "old.onnx", _RANDOM, "-q")
    succeed("export-backbone", bench / "backbone.onnx", *settings)
    events = bench / "scores.jsonl"
    streamed = ("stream", "--model", bench / "old.onnx", "--source", _CAMERA, _RANDOM)
    succeed(*streamed, "--events", events, "--threads", 1, "--backend", "cpu")
    lines = [json.loads(line) for line in events.read_text(encoding="utf-8").splitlines()]
    scores = sorted(line["score"] for line in lines if line["event"] == "frame")
    (bench / "median.txt").write_text(str(scores[len(scores) // 2]), encoding="utf-8")
    (bench / "streamed").mkdir()  # what a run of yesterday has left
    with hurried(bench):
        succeed(*stream_arguments(bench, bench / "streamed", _CAMERA))
    shutil.copytree(more, bench / "more")
    make_recipes(bench)
    make_projects(bench, succeed, tuple(settings))


def make_recipes(bench: Path) -> None:
    """A recipe of before, and one whose model has been replaced already."""
    succeed("export", bench / "new.edgeseg", "--out", bench / "new.onnx", _RANDOM, "-q")
    make_recipe_folder(bench / "recipes/part", bench / "old.onnx", bench / "more")
    shutil.copytree(bench / "recipes", bench / "replaced")
    succeed("recipe", "install", bench / "replaced/part", bench / "new.onnx", *_OPENING)


def artefact_facts(path: Path) -> list[Any]:
    """A fitted model as every command sees it."""
    from edgeseg.model.artefact import load_artefact

    artefact = load_artefact(path)
    factor = artefact.factors.factor.tobytes()
    return [artefact.calibration.score_threshold, hashlib.sha256(factor).hexdigest()]


def graph_facts(path: Path) -> list[Any]:
    """A graph and its sidecar as the device sees them."""
    import edgeseg.runtime

    with edgeseg.runtime.open(path, backend="cpu", threads=1, allow_random_weights=True) as model:
        frame = SceneGenerator(size_hw=(_SIZE, _SIZE)).good(5)
        return [model.predict(frame).score, model.metadata.threshold.score]


JOBS: dict[str, Job] = {
    "fit": Job(
        arguments=lambda at: ("fit", at / "plate/train/good", "--out", at / "m.edgeseg", *FIT),
        facts=lambda at: artefact_facts(at / "m.edgeseg"),
        prepare=("plate", "m.edgeseg=old.edgeseg"),
        again=("--resume",),
    ),
    "fit --resume": Job(
        arguments=lambda at: (
            "fit",
            at / "plate/train/good",
            "--out",
            at / "m.edgeseg",
            *FIT,
            "--resume",
            "--checkpoint-seconds",
            0,
            "--batch-size",
            2,
        ),
        facts=lambda at: artefact_facts(at / "m.edgeseg"),
        prepare=("plate", "m.edgeseg=old.edgeseg"),
    ),
    "export": Job(
        arguments=lambda at: (
            "export",
            at / "new.edgeseg",
            "--out",
            at / "m.onnx",
            _RANDOM,
            "-q",
        ),
        facts=lambda at: graph_facts(at / "m.onnx"),
        prepare=("new.edgeseg", "m.onnx=old.onnx", "m.json=old.json"),
    ),
    "update": Job(
        arguments=lambda at: ("update", at / "m.edgeseg", at / "more", "-q"),
        facts=lambda at: artefact_facts(at / "m.edgeseg"),
        prepare=("more", "m.edgeseg=old.edgeseg"),
        done="the model has all of its",
    ),
    "merge": Job(
        arguments=lambda at: (
            "merge",
            at / "0.shard",
            at / "1.shard",
            "--out",
            at / "m.edgeseg",
            "-q",
        ),
        facts=lambda at: artefact_facts(at / "m.edgeseg"),
        prepare=("0.shard", "1.shard", "plate", "m.edgeseg=old.edgeseg"),
    ),
    "calibrate": Job(
        arguments=lambda at: (
            "calibrate",
            at / "m.onnx",
            at / "more",
            _RANDOM,
            "--threads",
            1,
            "--backend",
            "cpu",
        ),
        facts=lambda at: graph_facts(at / "m.onnx"),
        prepare=("more", "m.onnx=old.onnx", "m.json=old.json"),
    ),
    "export --graph": Job(
        arguments=lambda at: (
            *("export", at / "m.edgeseg", "--graph", at / "backbone.onnx"),
            *("--out", at / "m.onnx", _RANDOM),
        ),
        facts=lambda at: graph_facts(at / "m.onnx"),
        prepare=("backbone.onnx", "m.edgeseg=new.edgeseg", "m.onnx=old.onnx", "m.json=old.json"),
    ),
    "threshold": Job(
        arguments=lambda at: ("threshold", at / "m.edgeseg", "--value", 9.5),
        facts=lambda at: artefact_facts(at / "m.edgeseg"),
        prepare=("m.edgeseg=old.edgeseg",),
    ),
    "threshold of a graph": Job(
        arguments=lambda at: ("threshold", at / "m.onnx", "--value", 9.5),
        facts=lambda at: graph_facts(at / "m.onnx"),
        prepare=("m.onnx=old.onnx", "m.json=old.json"),
    ),
    "stream": Job(
        arguments=lambda at: stream_arguments(at, at / "streamed", _CAMERA),
        facts=lambda at: stream_facts(at / "streamed"),
        prepare=("old.onnx", "old.json", "median.txt", "streamed"),
        after=lambda at: is_whole_log(at / "streamed/events.jsonl"),
        beside=hurried,
    ),
}


JOBS |= {
    "recipe install": Job(
        arguments=lambda at: ("recipe", "install", at / "recipes/part", at / "new.onnx", *_OPENING),
        facts=lambda at: recipe_facts(at / "recipes/part"),
        prepare=("recipes", "new.onnx", "new.json"),
        after=lambda at: is_approved(at / "recipes/part"),
    ),
    "recipe rollback": Job(
        arguments=lambda at: ("recipe", "rollback", at / "replaced/part"),
        facts=lambda at: recipe_facts(at / "replaced/part"),
        prepare=("replaced",),
        after=lambda at: is_approved(at / "replaced/part"),
        done="no version before this one",
    ),
    "swap": Job(
        arguments=lambda at: (
            *("stream", "--recipes", at / "recipes", *_OPENING, "--status-every", 0),
            *("--source", f"synthetic:fps=20,height={_SIZE},width={_SIZE}", "--duration", 60),
            *("--events", at / "events.jsonl"),
        ),
        facts=lambda at: recipe_facts(at / "recipes/part"),
        prepare=("recipes", "new.onnx", "new.json"),
        beside=lambda at: replaced_model(at / "recipes/part", at / "new.onnx", at / "events.jsonl"),
        after=lambda at: is_approved(at / "recipes/part"),
    ),
    "teach": Job(
        arguments=lambda at: ("teach", at / "line", "--good", at / "later", "-q"),
        facts=lambda at: graph_facts(model_that_runs(at / "line")),
        prepare=("line", "later", KEPT),
        after=lambda at: is_mended(at / "line"),
    ),
    "learn": Job(
        arguments=lambda at: ("learn", at / "line", "--force", "-q"),
        facts=lambda at: graph_facts(model_that_runs(at / "line")),
        prepare=("line", KEPT),
        after=lambda at: is_mended(at / "line"),
        done="nothing to learn",
    ),
}


def lay_out(bench: Path, folder: Path, job: Job, *, made: bool = False) -> None:
    """A folder with what the command finds."""
    folder.mkdir(exist_ok=made)
    for entry in job.prepare:
        name, _, source = entry.partition("=")
        origin = bench / (source or name)
        if origin.is_dir():
            shutil.copytree(origin, folder / name)
        else:
            shutil.copy(origin, folder / name)


def names_in(folder: Path) -> set[str]:
    """Everything below, but for what is numbered or dated: snapshots, checks, parts of logs."""
    paths = {path.relative_to(folder).as_posix() for path in folder.rglob("*")}
    dated = ("/alarm-", "/check-", "/events.0")
    return {path for path in paths if path not in _OURS and not any(mark in path for mark in dated)}


def close_enough(facts: Any, others: Any) -> bool:
    """Whether two readings are of the same file; scores are compared as numbers."""
    for one, other in zip(facts, others, strict=True):
        equal = one == other if isinstance(one, str) else np.isclose(one, other, rtol=1e-5)
        if not equal:
            return False
    return True
