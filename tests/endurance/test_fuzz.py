"""A little of the fuzzer in every run of the tests; the study runs as many as you like."""

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from edgeseg.base.errors import EdgesegError
from tests.endurance import bit_flips
from tests.endurance.bit_flips import main as flips
from tests.endurance.fuzz import __main__ as fuzz_main
from tests.endurance.fuzz import cases as fuzz_cases
from tests.endurance.fuzz.__main__ import main
from tests.endurance.fuzz.cases import damaged, run_cases
from tests.endurance.fuzz.format import Format
from tests.endurance.fuzz.formats import FORMATS
from tests.endurance.fuzz.seeds import Seed
from tests.support import KEPT as MODELS
from tests.support import REPO

KEPT = REPO / "tests" / "kept" / "fuzz"
# Some seconds each; those that fit, open sessions or sockets for a case take fewer.
COUNTS = {
    **dict.fromkeys(FORMATS, 300),
    **{"artefact": 60, "shard": 40, "checkpoint": 80, "graph": 100, "graph+sidecar": 150},
    **{"video": 60, "weights": 150},
}
ANSWERED = ("request", "counters")  # a refusal is an answer, or a new beginning


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", FORMATS)
def test_damaged_files_are_refused_in_one_sentence_or_load(name: str) -> None:
    if name == "signature":
        pytest.importorskip("cryptography", reason="needs pip install edgeseg[sign]")
    tally = run_cases(name, range(COUNTS[name]), seed=11)
    assert tally.findings == []
    assert tally.cases == COUNTS[name] == tally.refused + tally.loaded


@pytest.mark.parametrize("path", sorted(KEPT.iterdir()), ids=lambda path: path.name)
def test_what_was_found_before_stays_mended(path: Path, tmp_path: Path) -> None:
    name, _, file_name = path.name.split("--")
    kind = FORMATS[name]
    seed = Seed(data=path.read_bytes(), name=file_name)
    for whole in kind.seeds(tmp_path):
        if whole.name == file_name:
            seed = whole
    if name in ANSWERED:
        kind.load(path.read_bytes(), seed, tmp_path)
        return
    with pytest.raises((EdgesegError, *kind.refusals)):
        kind.load(path.read_bytes(), seed, tmp_path)


def test_a_case_is_the_same_by_its_number(tmp_path: Path) -> None:
    kind = FORMATS["mask"]
    whole = list(kind.seeds(tmp_path))
    files = [damaged(kind, whole, name="mask", case=case, seed=3)[2] for case in range(20)]
    again = [damaged(kind, whole, name="mask", case=case, seed=3)[2] for case in range(20)]
    assert files == again
    assert len(set(files)) > 15


def test_wrong_ends_are_found_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def load(data: bytes, seed: Seed, folder: Path) -> object:
        if len(data) % 2:
            raise KeyError("an odd file")
        return data

    toy = Format(
        seeds=lambda folder: iter([Seed(data=bytes(50), name="a", sealed=True)]), load=load
    )
    monkeypatch.setitem(FORMATS, "toy", toy)
    tally = run_cases("toy", range(60), seed=0, keep=tmp_path / "kept")
    said = {finding.what.partition(" (")[0] for finding in tally.findings}
    assert said == {"KeyError: 'an odd file'", "loaded, though it is not what was written"}
    assert len(list((tmp_path / "kept").iterdir())) == len(tally.findings)


def test_a_case_has_little_time(monkeypatch: pytest.MonkeyPatch) -> None:
    def endless(data: bytes, seed: Seed, folder: Path) -> object:
        while data != seed.data:
            pass
        return None

    seed = Seed(data=bytes(range(50)), name="a")
    toy = Format(seeds=lambda folder: iter([seed]), load=endless)
    monkeypatch.setitem(FORMATS, "toy", toy)
    monkeypatch.setattr(fuzz_cases, "LONGEST_S", 0.05)
    tally = run_cases("toy", range(10), seed=0)
    assert {finding.what for finding in tally.findings} == {"took over 0.05 s"}
    assert len(tally.findings) + tally.loaded == 10


def test_the_command_continues_its_report(tmp_path: Path) -> None:
    for name in ("registers", "trigger", "registers"):
        arguments = ["--format", name, "--count", "20", "--out", str(tmp_path)]
        result = CliRunner().invoke(main, arguments)
        assert result.exit_code == 0, result.output
    rows = json.loads((tmp_path / "fuzz.json").read_text())["rows"]
    told = [(row["format"], row["cases"], row["findings"]) for row in rows]
    assert sorted(told) == [("registers", 20, []), ("trigger", 20, [])]


@pytest.mark.parametrize(("case", "stuck_s"), [("die", 300.0), ("hang", 0.1)])
def test_a_case_that_kills_or_hangs_costs_itself_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str, stuck_s: float
) -> None:
    script = tmp_path / "worker.py"
    script.write_text(_WORKER)
    monkeypatch.setattr(fuzz_main, "_STUCK_S", stuck_s)
    monkeypatch.setattr(
        fuzz_main, "_worker_command", lambda *words: [sys.executable, str(script), case, *words]
    )
    count = {"die": 5, "hang": 1}[case]
    tally = fuzz_main.isolated("registers", 0, count, seed=0, keep=None, minutes=None)
    assert [finding.case for finding in tally.findings] == [count // 2]
    assert tally.cases == count


_WORKER = f"""
import os, sys, time
sys.path.insert(0, {str(REPO)!r})
from pathlib import Path
from tests.endurance.fuzz.cases import Tally
from tests.endurance.fuzz.__main__ import State
words = dict(zip(sys.argv[2::2], sys.argv[3::2]))
first, state, total = int(words["--first"]), State(Path(words["--worker"])), Tally()
for case in range(first, first + int(words["--count"])):
    state.at(case)
    if sys.argv[1] == "hang":
        time.sleep(600)
    if case == 2:
        os.abort()
    total.cases += 1
    state.write(total, case + 1)
"""


def test_flipped_bits_are_refused_a_hundred_of_a_hundred_times(tmp_path: Path) -> None:
    result = CliRunner().invoke(flips, ["--count", "5", "--out", str(tmp_path)])
    assert result.exit_code == 0, result.output
    rows = json.loads((tmp_path / "flips.json").read_text())["rows"]
    models = {row["model"]: row for row in rows}
    kinds = {Path(name).suffix for name in models}
    assert kinds == {".edgeseg", ".onnx", ".json", ".plan", ".shard", ".moments"}
    for name, facts in models.items():
        if Path(name).suffix in (".edgeseg", ".onnx", ".moments"):
            assert {"mean"} <= set(facts["refused"])
        assert set(facts["refused"].values()) == {5}


def test_a_flipped_bit_that_is_loaded_fails_the_study(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bit_flips, "read", lambda path: None)  # as if there were no hash
    result = CliRunner().invoke(flips, ["--count", "5", str(MODELS / "part.edgeseg")])
    assert result.exit_code == 1, result.output
