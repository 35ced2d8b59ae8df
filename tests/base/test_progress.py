"""Progress: silent for short work, on stderr for long work, and never in the way of the items."""

import itertools
from types import SimpleNamespace

import pytest

from edgeseg.base import progress
from edgeseg.base.progress import bar, silent


@pytest.fixture
def slow_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every look at the clock is a second later than the one before."""
    ticks = itertools.count()
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: float(next(ticks))))


def test_silence(capsys, monkeypatch):
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: 0.0))
    assert list(silent(range(3), length=3, label="Fitting")) == [0, 1, 2]
    assert list(bar(range(3), length=3, label="Fitting")) == [0, 1, 2]
    assert list(bar([], length=0, label="Fitting")) == []
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "")


@pytest.mark.usefixtures("slow_clock")
def test_a_file_gets_one_line_at_each_end(capsys):
    assert list(bar("abcdefgh", length=8, label="Fitting")) == list("abcdefgh")
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == [
        "Fitting: 2 of 8, about 9 s left",
        "Fitting: 8 of 8, 9.0 s",
    ]


@pytest.mark.usefixtures("slow_clock")
def test_a_terminal_gets_a_bar(capsys, monkeypatch):
    monkeypatch.setattr(progress.sys.stderr, "isatty", lambda: True, raising=False)
    list(bar("abcdefgh", length=8, label="Fitting"))
    lines = capsys.readouterr().err.split("\r\x1b[K")
    assert lines[1] == "█████" + "·" * 15 + " Fitting: 2 of 8, about 9 s left"
    assert lines[-1] == "Fitting: 8 of 8, 9.0 s\n"
    assert len(lines) == 8
