"""Refusals by the key and the values of what they say; the words stand in languages/ alone."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from edgeseg.base.errors import EdgesegError
from edgeseg.base.messages import Message


@contextmanager
def refuses(kind: type[EdgesegError], key: str, **values: Any) -> Iterator[None]:
    """Expect an error that says this sentence, with these values among its own."""
    with pytest.raises(kind) as refused:
        yield
    says(refused.value.message, key, **values)


def says(message: object, key: str, **values: Any) -> None:
    """Hold a message to its key and to some of its values."""
    assert isinstance(message, Message), message
    assert (message.key, {name: message.values[name] for name in values}) == (key, values)
