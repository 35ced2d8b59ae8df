"""A real browser for tests, which are skipped where there is none."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from edgeseg.bench.studies.teach.chromium import Browser, Tab, find_browser, running_browser

__all__ = ["Browser", "Tab", "open_browser"]


@contextmanager
def open_browser() -> Iterator[Browser]:
    """Start chromium; skip the test where it is not installed."""
    program = find_browser()
    if program is None:
        pytest.skip("needs a browser: apt-get install chromium")
    with running_browser(program) as browser:
        yield browser
