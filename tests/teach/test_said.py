"""Sentences of the service have keys, and every key is a sentence in both languages."""

import ast
import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from edgeseg.decision.operating_point import guarantee
from edgeseg.decision.score_origin import OriginKind, ScoreOrigin
from edgeseg.teach.page_files import service_sentences
from edgeseg.teach.said import recognised, told
from tests.support import REPO
from tests.support.thresholds import made_up_thresholds

TABLE = service_sentences()
SPEAKERS = (
    "edgeseg/teach/*.py",
    "edgeseg/fitting/*.py",
    "edgeseg/fitting/graph/*.py",
    "edgeseg/decision/loss.py",
    "edgeseg/decision/operating_point.py",
    "runtime/web/site_server.py",
)
# What the page never shows, or has words of its own for in texts.json.
UNSAID = {
    "alarms.py": ("alarm {}: not kept ({})",),  # a line of the log
    "feedback.py": (
        "mark={}: expected good, defect or ignore",  # said to programs, as all `NAME={}` are
        "who={}: expected operator or supervisor",
    ),
    "likeness.py": (
        "duplicate of {}",
        "odd: unlike all other pictures",
        "odd: darker than the others",
        "odd: brighter than the others",
    ),
    "meters.py": ("too dark", "too bright"),
    "page_files.py": ('"use strict";',),
    "pictures.py": (
        "{} is in {}/ again",  # the page puts back by name
        "kind={}: expected good or bad",
        "max_pixels={}: expected from 1 to {}",  # an option of the command
    ),
    "project.py": (
        "camera, folder or address, as of edgeseg stream",  # what a project.toml means
        "free, part or hardware, as of edgeseg stream",
        "file of edgeseg export-backbone; empty: the one at hand",
        "false alarms, as a share of good parts",
        "share of found defects; more asks a second person",
        "x,y,w,h in pixels of the camera; empty: all of it",
        "blob or anchor:x,y,w,h; empty: parts lie alike",
        "polygons [[x, y], ...] of what does not matter",
        "picture of good/ or removed/; empty: the first good",
        "trigger={}: expected free, part or hardware",
        "{}: no {} in it, so it is no project; begin one with `edgeseg teach {} --good PHOTOS`",
        "{}: is there, and no project (no {}); expected a new name or an empty folder",
        "kind={}: expected one of {}",
    ),
    "service.py": ("mode={}: expected off, trigger or parts",),
    "thumbnails.py": ("width={}: expected 1 to {} pixels, or 0 for its own",),
    "versions.py": ("{}/{}: judged {}, so it is no golden picture",),  # a line of the log
    "web.py": (
        '{"mode": "off", "trigger" or "parts"}',  # what a program should have asked
        '{"alarm": "ID", "mark": "good", "defect" or "ignore", "name": "WHO"}',
        '{"roi": [x, y, w, h] or null, "ignore": [[[x, y], ...]], "locate": "none"}',
        '{"backbone": "NAME"} or {}',
        '{"alarm": "ID", "name": "WHO", "of_who": "ROLE", "of_name": "WHOSE"}',
        '{"per_thousand": NUMBER, "name": "WHO"}',
        '{"name": "WHO"}',
        '{"kind": "good" or "bad"}',
        "expected good or bad",
        "expected good, bad or removed",
    ),
    "work.py": ("pip install {}", "exit code {}"),
}


def templates(path: Path) -> Iterator[str]:
    """Every text of a file but its docstrings, with {} for what is put into it."""
    yield from _texts(ast.parse(path.read_text(encoding="utf-8")))


def _texts(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return  # a docstring
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    inner = list(ast.iter_child_nodes(node))
    if isinstance(node, ast.JoinedStr):
        yield "".join(
            str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values
        )
        inner = [part.value for part in node.values if isinstance(part, ast.FormattedValue)]
    for each in inner:
        yield from _texts(each)


def test_every_key_is_said_by_the_service_in_just_these_words() -> None:
    """Who changes a sentence changes it in page/sentences.json too, in every language."""
    paths = chain.from_iterable(REPO.glob(pattern) for pattern in SPEAKERS)
    known = {text for path in paths for text in templates(path)}
    missing = [text for text in TABLE["en"].values() if re.sub(r"{\w+}", "{}", text) not in known]
    assert missing == []


def test_every_sentence_of_the_service_has_a_key() -> None:
    """Who adds a sentence gives it a German one, or says here why nobody reads it on the page."""
    words = re.compile(r"[A-Za-z]{2}.* .*[a-z]{2}")
    unknown = [
        (path.name, text)
        for path in sorted((REPO / "edgeseg" / "teach").glob("*.py"))
        for text in templates(path)
        if words.search(text)
        and text not in UNSAID.get(path.name, ())
        and recognised(text.replace("{}", "7")) is None
    ]
    assert unknown == []


def test_what_is_unsaid_is_in_the_files() -> None:
    for name, kept in UNSAID.items():
        assert set(kept) <= set(templates(REPO / "edgeseg" / "teach" / name)), name


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


@pytest.mark.parametrize("kind", ["split", "cross", "fitted"])
def test_what_is_known_of_a_promise_has_a_key(kind: OriginKind) -> None:
    chosen = made_up_thresholds(1, origin=ScoreOrigin(kind=kind))
    assert recognised(str(guarantee(chosen))) is not None


@pytest.mark.parametrize(
    "facts",
    [
        {"false_alarm_rate": 1.0},
        {"images": 24, "parts": 3, "grouping": "pictures"},
        {"images": 120, "parts": 15, "grouping": "pictures"},
        {"images": 120, "parts": 15, "grouping": "told"},
    ],
)
def test_what_near_copies_leave_of_a_promise_has_a_key(facts: dict[str, Any]) -> None:
    words = str(guarantee(made_up_thresholds(1.0, **facts)))
    assert recognised(words) is not None
    said = recognised(f"{words}; one fit in ten alarms at 4.6 % or more")
    assert said is not None
    assert said["key"] == "guarantee_spread"
    assert said["values"]["words"] == recognised(words)


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
