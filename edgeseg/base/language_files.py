"""The languages that people read, one file each: a file more is a language more.

    languages/de.json    {"name": "Deutsch", "short": "DE",
                          "sentences": {key: sentence}, "texts": {key: text}}

Sentences are said by the programs, texts stand on the pages. English has every key; where another
language lacks one, the English words stand.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ENGLISH = "en"
FOLDER = Path(__file__).with_name("languages")


@dataclass(frozen=True, kw_only=True)
class Language:
    """One language: its name for the people who read it, and what is said in it by key."""

    name: str
    short: str  # for a small button
    sentences: Mapping[str, str]
    texts: Mapping[str, str]


@cache
def languages(folder: Path = FOLDER) -> dict[str, Language]:
    """Read every language by its code, English first and with all its keys in each."""
    paths = sorted(folder.glob("*.json"), key=lambda path: (path.stem != ENGLISH, path.stem))
    found = {path.stem: Language(**json.loads(path.read_text(encoding="utf-8"))) for path in paths}
    english = found[ENGLISH]
    return {
        code: Language(
            name=each.name,
            short=each.short,
            sentences={**english.sentences, **each.sentences},
            texts={**english.texts, **each.texts},
        )
        for code, each in found.items()
    }
