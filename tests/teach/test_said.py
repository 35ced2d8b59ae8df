"""Sentences of the service have keys, and every key is a sentence in both languages."""

import ast
import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest

from edgeseg.contract.operating_point import guarantee
from edgeseg.teach.page_files import texts
from edgeseg.teach.said import recognised, told
from tests.support import REPO

TABLE = texts("sentences.json")
SPEAKERS = ("edgeseg/teach/*.py", "edgeseg/fitting/*.py", "edgeseg/contract/operating_point.py")


def templates(path: Path) -> Iterator[str]:
    """Every text of a file, with {} for what is put into it."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.JoinedStr):
            yield "".join(
                str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values
            )


def test_every_key_is_said_by_the_service_in_just_these_words() -> None:
    """Who changes a sentence changes it in page/sentences.json too, in every language."""
    paths = chain.from_iterable(REPO.glob(pattern) for pattern in SPEAKERS)
    known = {text for path in paths for text in templates(path)}
    missing = [text for text in TABLE["en"].values() if re.sub(r"{\w+}", "{}", text) not in known]
    assert missing == []


def test_every_key_has_both_languages_with_the_same_values() -> None:
    for key, english in TABLE["en"].items():
        german = TABLE["de"][key]
        assert german.strip(), key
        assert german != english, key
        assert sorted(re.findall(r"{(\w+)}", german)) == sorted(re.findall(r"{(\w+)}", english))


def test_a_sentence_is_known_by_its_words() -> None:
    assert recognised("fitted on 60 good pictures") == {"key": "fit_ended", "values": {"n": "60"}}
    assert recognised("fitted on many good pictures") is None
    assert recognised("locate=blob: the part does not stand out") is None
    assert recognised("0: connected") == {"key": "camera_connected", "values": {"name": "0"}}


def test_a_sentence_within_a_sentence_is_known_too() -> None:
    said = recognised("Fitting: 12 of 60")
    label = {"key": "work_fitting", "values": {}}
    assert said == {"key": "work_so_far", "values": {"what": label, "n": "12", "n_all": "60"}}
    said = recognised("one operator says good; 2 of different names or a supervisor decide")
    assert said is not None
    assert said["values"] == {"word": {"key": "word_good", "values": {}}, "n": "2"}


@pytest.mark.parametrize("method", ["split-conformal", "cross-conformal; chosen", "resubstituted"])
def test_what_is_known_of_a_promise_has_a_key(method: str) -> None:
    assert recognised(guarantee(method)) is not None


def test_keys_stand_beside_the_words_and_change_nothing() -> None:
    facts = {
        "fit": {"state": "running", "sentence": "starting"},
        "held_back": [{"name": "a", "reason": "not counted, as was said"}, {"reason": "rare"}],
        "why": 3,
        "good": ("starting",),
    }
    assert told(facts) == {
        "fit": {
            "state": "running",
            "sentence": "starting",
            "sentence_said": {"key": "starting", "values": {}},
        },
        "held_back": [
            {
                "name": "a",
                "reason": "not counted, as was said",
                "reason_said": {"key": "held_ignored", "values": {}},
            },
            {"reason": "rare"},
        ],
        "why": 3,
        "good": ["starting"],
    }
