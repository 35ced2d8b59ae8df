"""What is said to people, as values: settings by their names, and sentences by their keys.

    raise UsageError(Setting("rate", rate), ": expected above 0 and below 1")
    raise UsageError(Message("rate_wrong", n=rate))

Programs and files carry the values. A setting is `rate=2` to a Python program and `--rate 2` on
the command line; each file of languages/ has every keyed sentence once.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from string import Formatter
from typing import Any

from edgeseg.base.language_files import ENGLISH, languages


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
    """One of the sentences, and the values in it: numbers, texts, settings, messages or lists."""

    key: str
    values: Mapping[str, Any]

    def __init__(self, key: str, /, **values: Any) -> None:
        if key not in sentences():
            raise KeyError(f"{key}: no such sentence in languages/{ENGLISH}.json")
        if values.keys() != places(key):
            raise KeyError(f"{key}: values {sorted(values)}, expected {sorted(places(key))}")
        object.__setattr__(self, "key", key)
        object.__setattr__(self, "values", values)

    def __str__(self) -> str:
        return self.text()

    def text(self, say: Say = str, *, language: str = ENGLISH) -> str:
        """Return the sentence in a language; `say` writes its settings."""

        def value(name: str, form: str) -> str:
            part = self.values[name]
            is_number = isinstance(part, int | float)
            return format(part, form) if is_number else write(part, say, language=language)

        parsed = Formatter().parse(sentences(language)[self.key])
        return "".join(
            words + ("" if name is None else value(name, form or ""))
            for words, name, form, _ in parsed
        )

    def to_json(self) -> dict[str, Any]:
        """Return plain values, from which `from_json` makes the message again."""
        return {
            "key": self.key,
            "values": {name: _plain(each) for name, each in self.values.items()},
        }

    @classmethod
    def from_json(cls, plain: Any) -> "Message":
        """Read what `to_json` gave; a KeyError if this version has no such sentence."""
        match plain:
            case {"key": str(key), "values": dict(values)}:
                return cls(key, **{name: _value(each) for name, each in values.items()})
        raise KeyError(f"{str(plain)[:60]}: expected a key and values")


Words = Message | str  # a keyed sentence, or one that has no key and stays in its language


def read_words(plain: Any) -> Words:
    """Read a message or a text; anything else becomes a text, as it stands."""
    try:
        return plain if isinstance(plain, str) else Message.from_json(plain)
    except KeyError:
        return str(plain)


def _value(plain: Any) -> Any:
    if isinstance(plain, list):
        return [_value(each) for each in plain]
    return Message.from_json(plain) if isinstance(plain, dict) else plain


def _plain(value: Any) -> Any:
    if isinstance(value, Message):
        return value.to_json()
    if isinstance(value, list):
        return [_plain(each) for each in value]
    no_number = isinstance(value, float) and not math.isfinite(value)
    return str(value) if no_number else value  # JSON has no NaN and no infinity


class Sentence(str):
    """A text that keeps its parts where it is passed on: a note, a reason, a piece of an error.

    As a text it is English, with settings as a Python program writes them; `text` writes it in
    another language or with other settings.
    """

    parts: tuple[object, ...]

    def __new__(cls, *parts: object) -> "Sentence":
        sentence = super().__new__(cls, "".join(map(write, parts)))
        sentence.parts = parts
        return sentence

    def text(self, say: Say = str, *, language: str = ENGLISH) -> str:
        """Return the text in a language; `say` writes its settings."""
        return "".join(write(part, say, language=language) for part in self.parts)


def write(part: object, say: Say = str, *, language: str = ENGLISH) -> str:
    """Write one part of a message as text: a text, a setting, a message or an error."""
    if isinstance(part, Setting):
        return say(part)
    if isinstance(part, Message):
        return part.text(say, language=language)
    if isinstance(part, list):
        return "; ".join(write(each, say, language=language) for each in part)
    text = getattr(part, "text", None)  # an error that this one is about
    return text(say, language=language) if callable(text) else str(part)


def sentences(language: str = ENGLISH) -> Mapping[str, str]:
    """Return every sentence of a language by key."""
    return languages()[language].sentences


@cache
def places(key: str) -> frozenset[str]:
    """Return the names of the values in a sentence."""
    parsed = Formatter().parse(sentences()[key])
    return frozenset(name for _, name, _, _ in parsed if name is not None)
