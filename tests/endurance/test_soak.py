"""The soak: short runs, and the judgement on made-up ones."""

from dataclasses import replace

import pytest
from click.testing import CliRunner

from tests.endurance import soak as soak_study
from tests.endurance.soak import Soaked, main, soak


@pytest.fixture(scope="module")
def soaked() -> Soaked:
    """A second of a camera that is four times as fast as the model."""
    return soak(minutes=1 / 60, fps=200.0, infer_ms=20.0)


@pytest.fixture
def calm(soaked: Soaked) -> Soaked:
    """The same as it would be on a machine that does nothing else."""
    age = replace(soaked.snapshot.stages["capture_age"], p99=soaked.bound_ms)
    snapshot = replace(soaked.snapshot, stages={**soaked.snapshot.stages, "capture_age": age})
    return replace(soaked, snapshot=snapshot, memory_mb=(100.0,) * 9)


def test_every_frame_is_accounted_for(soaked: Soaked) -> None:
    source = soaked.source
    assert source.scored > 0
    assert source.frames_in == source.scored + soaked.dropped
    assert soaked.memory_mb
    assert all(sample > 0 for sample in soaked.memory_mb)
    assert not any("accounted for" in failure for failure in soaked.failures())


def test_a_calm_soak_passes(calm: Soaked) -> None:
    assert list(calm.failures()) == []
    frames = f"{calm.source.frames_in} in = {calm.source.scored} scored + {calm.dropped} dropped"
    assert f"frames: {frames}" in list(calm.lines())


def test_failures_are_named(calm: Soaked) -> None:
    (leak,) = replace(calm, memory_mb=(100.0, 103.0, 106.0)).failures()
    assert leak == "memory grew by 6.0 MB, expected at most 5"
    lost = replace(calm.source, frames_in=calm.source.frames_in + 1)
    (count,) = replace(calm, snapshot=replace(calm.snapshot, sources=(lost,))).failures()
    assert count.startswith("frames are not accounted for")
    age = replace(calm.snapshot.stages["capture_age"], p99=calm.bound_ms + 1)
    stages = {**calm.snapshot.stages, "capture_age": age}
    (old,) = replace(calm, snapshot=replace(calm.snapshot, stages=stages)).failures()
    assert old == "scored frames are older than one frame and one inference"


def test_the_command(calm: Soaked, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, float]] = []

    def made(**settings: float) -> Soaked:
        asked.append(settings)
        return calm

    monkeypatch.setattr(soak_study, "soak", made)
    result = CliRunner().invoke(main, ["--minutes", "0.02"])
    assert result.exit_code == 0, result.output
    assert asked == [{"minutes": 0.02, "fps": 120.0, "infer_ms": 20.0}]
    assert "frames: " in result.output
    monkeypatch.setattr(soak_study, "soak", lambda **_: replace(calm, memory_mb=(1.0, 9.0)))
    leaking = CliRunner().invoke(main, [])
    assert str(leaking.exception) == "FAILED: memory grew by 8.0 MB, expected at most 5"
