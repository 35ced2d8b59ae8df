"""What is said to people, as values: the table of sentences, and messages that go round as JSON."""

import ast
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from edgeseg.base.errors import EdgesegError, UsageError, words_of
from edgeseg.base.messages import Message, Setting, places, read_words, sentences
from edgeseg.base.plain import Malformed, record
from edgeseg.teach.second_person import PendingDecision
from tests.support import REPO

ROOTS = ("edgeseg", "export", "runtime", "bench")
FOUND = Message("learn_found", n=2, n_all=3)
LEARNED = Message("learn_would", n=2, n_old=1.23456, n_new=2.0, n_pass=1, found=FOUND)


def calls() -> Iterator[tuple[Path, ast.Call, set[str]]]:
    """Every Message(...) of the source, and the keys that it may have."""
    paths = {path.resolve() for root in ROOTS for path in (REPO / root).rglob("*.py")}
    for path in sorted(paths):
        text = path.read_text(encoding="utf-8")
        if "Message(" not in text:
            continue
        for scope in ast.walk(ast.parse(text)):
            if isinstance(scope, ast.FunctionDef | ast.Module):
                texts = {node.value for node in ast.walk(scope) if isinstance(node, ast.Constant)}
                for call in filter(is_message, own_nodes(scope)):
                    first = call.args[0]
                    named = {first.value} if isinstance(first, ast.Constant) else texts
                    yield path, call, named & sentences().keys() or {ast.unparse(first)}


def own_nodes(scope: ast.AST) -> Iterator[ast.AST]:
    """All nodes that belong to no function inside."""
    for node in ast.iter_child_nodes(scope):
        yield node
        if not isinstance(node, ast.FunctionDef):
            yield from own_nodes(node)


def is_message(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "Message"
        and bool(node.args)
    )


def test_every_sentence_is_said_and_every_message_has_one_with_its_values() -> None:
    """Who adds a sentence writes it once, in every language, and names its values."""
    used: set[str] = set()
    for path, call, keys in calls():
        used |= keys
        given = {each.arg for each in call.keywords}
        for key in keys:
            where = f"{path.relative_to(REPO)}:{call.lineno}"
            assert key in sentences(), where
            one_key = len(keys) == 1  # else each has values of its own
            assert not one_key or given == places(key), where
    assert used == sentences().keys()


def test_a_message_is_its_sentence_with_its_values() -> None:
    assert str(LEARNED) == (
        "learning 2 of the marked alarms: the threshold goes from 1.235 to 2, 1 of them would "
        "pass, 2 of 3 known defects are still found"
    )
    assert FOUND.text(language="de") == "2 von 3 bekannten Fehlern werden weiter gefunden"
    reasons = [Message("held_gone"), "rare"]
    assert str(Message("learn_nothing", why=reasons)).endswith("withdraw the mark; rare")
    rise = Setting("rate", 2)
    assert Message("work_failed", why=rise).text(lambda each: f"--{each.name}").count("(--rate)")


@pytest.mark.parametrize(
    "message",
    [
        LEARNED,
        Message("learn_nothing", why=[Message("held_gone"), Message("held_quota", n=2)]),
        Message("picture_name", name="'../x'"),
    ],
)
def test_json_carries_a_message(message: Message) -> None:
    plain = json.loads(json.dumps(message.to_json(), allow_nan=False))
    assert Message.from_json(plain) == message
    assert read_words(plain) == message


def test_what_is_no_number_of_json_is_said_as_before() -> None:
    message = Message("loss_few", n=3, n_rise=float("inf"))
    plain = json.loads(json.dumps(message.to_json(), allow_nan=False))
    assert str(Message.from_json(plain)) == str(message)
    assert "becomes inf times" in str(message)


@pytest.mark.parametrize(
    "plain",
    [
        *(3, None, [], {}, {"key": "starting"}, {"key": 3, "values": {}}),
        *({"key": "no such", "values": {}}, {"key": "starting", "values": {"n": 1}}),
        *({"key": "fit_ended", "values": {}}, {"key": "work_busy", "values": {"what": {}}}),
    ],
)
def test_what_is_no_message_is_shown_as_it_stands(plain: Any) -> None:
    with pytest.raises(KeyError):
        Message.from_json(plain)
    assert read_words(plain) == str(plain)
    asked = {"what": "learn", "of": "", "name": "", "when": ""}
    with pytest.raises(Malformed, match="sentence"):
        record(PendingDecision, {**asked, "sentence": plain})
    assert record(PendingDecision, {**asked, "sentence": "words"}).sentence == "words"


def test_an_error_goes_round_with_its_parts() -> None:
    error = UsageError(Setting("locate", "blob"), ": does not stand out; ", Message("starting"))
    plain = json.loads(json.dumps(error.to_json()))
    again = EdgesegError.from_json(plain)
    assert (str(again), again.args, again.setting) == (str(error), error.args, error.args[0])
    keyed = EdgesegError.from_json(EdgesegError(FOUND).to_json())
    assert (keyed.message, keyed.setting) == (FOUND, None)
    assert words_of(keyed) == FOUND
    assert words_of(error) == "locate=blob: does not stand out; starting"
    assert words_of(ZeroDivisionError()) == "ZeroDivisionError"
