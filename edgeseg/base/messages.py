"""What is said to people, as values: settings by their names, and sentences by their keys.

    raise UsageError(Setting("rate", rate), ": expected above 0 and below 1")
    raise UsageError(Message("rate_wrong", n=rate))

Programs and files carry the values. A setting is `rate=2` to a Python program and `--rate 2` on
the command line; sentences.json has every keyed sentence once, in each language.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

ENGLISH = "en"
_SENTENCES = Path(__file__).with_name("sentences.json")


@dataclass(frozen=True)
class Setting:
    """A setting that a sentence names, and its value where there is one."""

    name: str
    value: object = ""  # as it is written behind the name; "": the name alone

    def __str__(self) -> str:
        return f"{self.name}={self.value}"


Say = Callable[[Setting], str]  # how a setting is written for whoever reads


@dataclass(frozen=True, init=False)
class Message:
    """One of the sentences, and the values in it: numbers, texts, settings or other messages."""

    key: str
    values: Mapping[str, Any]

    def __init__(self, key: str, /, **values: Any) -> None:
        if key not in sentences():
            raise KeyError(f"{key}: no such sentence in {_SENTENCES.name}")
        object.__setattr__(self, "key", key)
        object.__setattr__(self, "values", values)

    def __str__(self) -> str:
        return self.text()

    def text(self, say: Say = str, *, language: str = ENGLISH) -> str:
        """Return the sentence in a language; `say` writes its settings."""
        words = {name: write(value, say, language=language) for name, value in self.values.items()}
        return sentences()[self.key][language].format(**words)

    def to_json(self) -> dict[str, Any]:
        """Return plain values that `from_json` reads."""
        values = {
            name: value.to_json() if isinstance(value, Message) else value
            for name, value in self.values.items()
        }
        return {"key": self.key, "values": values}

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> "Message":
        """Read what to_json gave; an unknown key is a KeyError."""
        values = {
            name: cls.from_json(value) if isinstance(value, dict) else value
            for name, value in plain["values"].items()
        }
        return cls(plain["key"], **values)


def write(part: object, say: Say = str, *, language: str = ENGLISH) -> str:
    """Write one part of a message as text: a text, a setting, a message or an error."""
    if isinstance(part, Setting):
        return say(part)
    if isinstance(part, Message):
        return part.text(say, language=language)
    text = getattr(part, "text", None)  # an error that this one is about
    return text(say, language=language) if callable(text) else str(part)


@cache
def sentences() -> dict[str, dict[str, str]]:
    """Return every sentence by key and language."""
    table: dict[str, dict[str, str]] = json.loads(_SENTENCES.read_text(encoding="utf-8"))
    return table
