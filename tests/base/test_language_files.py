"""The languages: each has every key with its values, and a file more is a language more."""

import json
import shutil
from pathlib import Path
from string import Formatter

import pytest

from edgeseg.base.language_files import ENGLISH, FOLDER, languages

OTHERS = sorted(path.stem for path in FOLDER.glob("*.json") if path.stem != ENGLISH)


def places(text: str) -> list[tuple[str, str]]:
    """The values in a text, and how each is written."""
    parsed = Formatter().parse(text)
    return sorted((name, form or "") for _, name, form, _ in parsed if name is not None)


@pytest.mark.parametrize("part", ["sentences", "texts"])
@pytest.mark.parametrize("code", OTHERS)
def test_every_language_has_every_key_with_the_same_places(code: str, part: str) -> None:
    english = json.loads((FOLDER / f"{ENGLISH}.json").read_text(encoding="utf-8"))[part]
    other = json.loads((FOLDER / f"{code}.json").read_text(encoding="utf-8"))[part]
    assert list(other) == list(english)
    for key, text in other.items():
        assert text.strip(), key
        assert places(text) == places(english[key]), key


@pytest.mark.parametrize("code", OTHERS)
def test_no_sentence_is_left_in_english(code: str) -> None:
    english, other = languages()[ENGLISH].sentences, languages()[code].sentences
    assert [key for key in english if english[key] == other[key]] == []


def test_a_file_more_is_a_language_more(tmp_path: Path) -> None:
    folder = shutil.copytree(FOLDER, tmp_path / "languages")
    french = {"name": "Français", "short": "FR", "sentences": {}, "texts": {"tab_run": "Marche"}}
    (folder / "fr.json").write_text(json.dumps(french), encoding="utf-8")
    found = languages(folder)
    assert list(found) == [ENGLISH, *sorted([*OTHERS, "fr"])]
    assert found["fr"].texts["tab_run"] == "Marche"
    assert found["fr"].texts["tab_fit"] == found[ENGLISH].texts["tab_fit"]  # not translated yet
    assert found["fr"].sentences == found[ENGLISH].sentences
