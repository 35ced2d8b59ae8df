"""The teaching page over a service that answers at once."""

from collections.abc import Iterator

import pytest

from tests.doubles.chromium import Browser
from tests.support.teach_site import Site


@pytest.fixture
def site(browser: Browser) -> Iterator[Site]:
    """A page in the browser; nothing may have gone wrong on it or behind it."""
    started = Site(browser)
    yield started
    started.close()
