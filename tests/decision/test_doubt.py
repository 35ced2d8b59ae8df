"""Why a frame gave no verdict: a word and a sentence."""

import math

import pytest

from edgeseg.decision.doubt import SENTENCES, Doubt, DoubtKind, doubt_on
from edgeseg.vision.locate import Found


@pytest.mark.parametrize(
    ("verdict", "invalid", "kind"),
    [
        ("good", None, None),
        ("unsure", None, None),
        ("defect", None, None),
        ("invalid", DoubtKind.NO_SCORE, DoubtKind.NO_SCORE),
        ("invalid", DoubtKind.FOREIGN, DoubtKind.FOREIGN),
        ("invalid", DoubtKind.DARK, DoubtKind.DARK),
        ("not_found", DoubtKind.FOREIGN, DoubtKind.NOT_FOUND),
    ],
)
def test_each_verdict_that_is_none_has_its_reason(
    verdict: str, invalid: DoubtKind | None, kind: DoubtKind | None
) -> None:
    doubt = doubt_on(verdict, invalid)
    assert (None if doubt is None else doubt.kind) == kind


def test_what_was_found_instead_is_told() -> None:
    found = Found(pose=None, oddness=math.inf, reason="nothing there", look=None)
    assert str(doubt_on("not_found", None, found=found)).endswith("one: nothing there")


def test_every_kind_has_a_sentence() -> None:
    assert {str(Doubt(kind=kind)) for kind in DoubtKind} == set(SENTENCES.values())
