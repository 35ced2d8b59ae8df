"""Moments as files and messages write them."""

import pytest

from edgeseg.base import utc
from edgeseg.base.utc import utc_time


def test_now_is_by_the_clock_that_dates_everything_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """gmtime() by itself lags behind by some milliseconds, and may say the second before."""
    monkeypatch.setattr(utc.time, "time", lambda: 1795000000.0005)
    assert utc_time() == utc_time(1795000000.0) == "2026-11-18T11:06:40Z"
    assert utc_time(0.0) == "1970-01-01T00:00:00Z"
