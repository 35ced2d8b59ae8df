"""What ran here: a version below it is refused, unless somebody went back to exactly that one."""

import json
from pathlib import Path

import pytest

import edgeseg.runtime
from edgeseg.base.errors import RuntimeFailure
from edgeseg.modelfile.signature import Statement, sign
from edgeseg.modelfile.signing_keys import make_keys
from edgeseg.runtime.backends.ran_versions import RanVersions, state_folder
from tests.support.brightness_model import write_brightness_model
from tests.support.commands import fail, succeed


def statement(version: int, *, name: str = "bottle", when: str = "2030-01-01") -> Statement:
    return Statement(name=name, version=version, files={}, sizes={}, when=when, key="0" * 16)


def run(ran: RanVersions, version: int, **values: str) -> bool:
    """Whether it may inspect; then it does."""
    try:
        ran.check(statement(version, **values))
    except RuntimeFailure:
        return False
    ran.remember(statement(version, **values))
    return True


def test_versions_only_grow(tmp_path: Path) -> None:
    ran = RanVersions(tmp_path)
    allowed = [run(ran, version) for version in (3, 3, 2, 5, 4, 3, 5, 6)]
    assert allowed == [True, True, False, True, False, False, True, True]
    assert run(ran, 1, name="cap"), "each product has its own"
    with pytest.raises(RuntimeFailure) as refused:
        RanVersions(tmp_path).check(statement(1))
    assert str(refused.value) == (
        f"bottle: version 1 of 2030-01-01, and version 6 ran here ({ran.path('bottle')}); sign it "
        "as version 7, or go back on purpose with `edgeseg recipe rollback`"
    )


def test_going_back_is_to_one_version_and_is_kept(tmp_path: Path) -> None:
    ran = RanVersions(tmp_path)
    for version in (1, 2, 3):
        run(ran, version)
    ran.go_back(statement(1))
    assert [run(ran, version) for version in (1, 2, 1, 3)] == [True, False, True, True]
    assert not run(ran, 1), "after the newest ran again"
    record = ran.read("bottle")
    assert record is not None
    steps = [(step.what, step.version) for step in record.history]
    assert steps == [("ran", 1), ("ran", 2), ("ran", 3), ("gone back", 1), ("ran", 3)]


def test_another_statement_of_the_same_version_is_not_what_was_gone_back_to(tmp_path: Path) -> None:
    ran = RanVersions(tmp_path)
    run(ran, 2)
    ran.go_back(statement(1))
    assert not run(ran, 1, when="2030-01-02")


def test_nothing_is_written_while_nothing_is_new(tmp_path: Path) -> None:
    ran = RanVersions(tmp_path)
    run(ran, 1)
    before = ran.path("bottle").stat().st_mtime_ns
    run(ran, 1)
    assert ran.path("bottle").stat().st_mtime_ns == before


@pytest.mark.parametrize("text", ["", "{}", '{"name": "cap", "version": 1}', "[" * 999])
def test_a_damaged_record_is_never_no_record(tmp_path: Path, text: str) -> None:
    ran = RanVersions(tmp_path)
    run(ran, 2)
    ran.path("bottle").write_text(text)
    assert not run(ran, 3)


def test_a_record_that_cannot_be_written_lets_nothing_new_run(tmp_path: Path) -> None:
    (tmp_path / "ran").write_text("a file where the folder should be")
    with pytest.raises(RuntimeFailure, match=r"cannot be (read|written)"):
        run_or_raise(RanVersions(tmp_path))


def run_or_raise(ran: RanVersions) -> None:
    ran.check(statement(1))
    ran.remember(statement(1))


def test_names_are_no_paths(tmp_path: Path) -> None:
    ran = RanVersions(tmp_path)
    assert run(ran, 1, name="../../etc/passwd")
    assert [path.parent for path in tmp_path.rglob("*.json")] == [tmp_path / "ran"]


def test_where_a_station_keeps_it() -> None:
    assert state_folder({"EDGESEG_STATE": "/a", "STATE_DIRECTORY": "/b"}) == Path("/a")
    assert state_folder({"STATE_DIRECTORY": "/b:/c"}) == Path("/b")
    assert state_folder({"XDG_STATE_HOME": "/s"}) == Path("/s/edgeseg")
    assert state_folder({}) == Path.home() / ".local/state/edgeseg"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    pytest.importorskip("cryptography", reason="needs cryptography: pip install edgeseg[sign]")
    write_brightness_model(tmp_path / "part.onnx")
    make_keys(tmp_path / "owner.key")
    return tmp_path / "part.onnx"


def test_an_older_model_is_refused_by_stream_and_by_programs(model: Path) -> None:
    key, public = model.with_name("owner.key"), model.with_name("owner.pub")
    stream = ("stream", "--model", model, "--source", "synthetic:frames=1,height=64,width=96")
    options = ("--backend", "cpu", "--trust", public)
    sign(model, key, chain={}, version=5)
    succeed(*stream, *options)
    sign(model, key, chain={}, version=4)
    refusal = "part.onnx: version 4 of "
    assert fail(*stream, *options, code=1).startswith(refusal)
    with pytest.raises(RuntimeFailure, match=refusal):
        edgeseg.runtime.open(model, backend="cpu", trust=[public])
    sign(model, key, chain={}, version=6)
    with edgeseg.runtime.open(model, backend="cpu", trust=[public]):
        pass
    sign(model, key, chain={}, version=5)
    assert fail(*stream, *options, code=1).startswith("part.onnx: version 5 of ")
    succeed("stream", *stream[1:], "--backend", "cpu")  # who trusts no keys asks for no versions


def test_the_record_is_plain(tmp_path: Path) -> None:
    ran = RanVersions(tmp_path)
    run(ran, 1)
    told = json.loads(ran.path("bottle").read_text())
    assert {"name", "version", "gone_back_to", "history", "schema"} == set(told)
