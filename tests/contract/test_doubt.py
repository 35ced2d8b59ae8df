"""Why a frame gave no verdict: a word and a sentence."""

import math

import pytest

from edgeseg.contract.doubt import SENTENCES, Doubt, DoubtKind, doubt_on
from edgeseg.contract.locate import Found


@pytest.mark.parametrize(
    ("verdict", "score", "kind"),
    [
        ("good", 1.0, None),
        ("unsure", 1.0, None),
        ("defect", math.inf, None),
        ("invalid", math.nan, DoubtKind.NO_SCORE),
        ("invalid", 7.0, DoubtKind.FOREIGN),
        ("not_found", 7.0, DoubtKind.NOT_FOUND),
    ],
)
def test_each_verdict_that_is_none_has_its_reason(
    verdict: str, score: float, kind: DoubtKind | None
) -> None:
    doubt = doubt_on(verdict, score)
    assert (None if doubt is None else doubt.kind) == kind


def test_what_was_found_instead_is_told() -> None:
    found = Found(pose=None, oddness=math.inf, reason="nothing there", look=None)
    assert str(doubt_on("not_found", 1.0, found=found)).endswith("one: nothing there")


def test_every_kind_has_a_sentence() -> None:
    assert {str(Doubt(kind=kind)) for kind in DoubtKind} == set(SENTENCES.values())
