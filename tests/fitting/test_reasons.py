"""Reasons: shares of layers are those of d^2, and only what exceeds the usual is named."""

import numpy as np
import pytest

from edgeseg.decision.why import Reasons, Why
from edgeseg.fitting.reasons import layer_names, mean_precision
from edgeseg.model.artefact import Artefact
from tests.support.messages import says


def forms(artefact: Artefact) -> Reasons:
    assert artefact.reasons is not None
    return artefact.reasons


def test_parts_of_the_layers_add_up_to_the_distance(small_artefact: Artefact):
    """With W semi-orthogonal nothing of z'P z is lost between the layers."""
    reasons, precision = forms(small_artefact), mean_precision(small_artefact.factors)
    z = np.random.default_rng(0).normal(size=(20, len(precision)))
    whole = np.einsum("ck,kj,cj->c", z, precision, z)
    parts = np.einsum("ck,lkj,cj->lc", z, reasons.forms.values, z)
    ratio = parts.sum(axis=0) / whole
    np.testing.assert_allclose(ratio, ratio.mean(), rtol=0.01)
    assert sum(reasons.usual) == pytest.approx(1, abs=1e-3)


def test_what_differs_in_one_layer_alone_is_largest_there(small_artefact: Artefact):
    """z of features of one layer alone, W' of them: its share exceeds that of other layers' z."""
    reasons, weight = forms(small_artefact), small_artefact.embedding
    taps = small_artefact.spec.chosen_taps(small_artefact.config.layers)
    ends = np.cumsum([tap.channels for tap in taps])
    rng = np.random.default_rng(1)
    shares = []
    for first, last in zip([0, *ends[:-1]], ends, strict=True):
        features = np.zeros((200, len(weight)))
        features[:, first:last] = rng.normal(size=(200, last - first))
        z = features @ weight
        parts = np.einsum("ck,lkj,cj->l", z, reasons.forms.values, z)
        shares.append(parts / parts.sum())
    assert np.argmax(shares, axis=0).tolist() == list(range(len(taps)))


def test_nothing_stands_out_where_shares_are_the_usual_ones(small_artefact: Artefact):
    reasons = forms(small_artefact)
    assert reasons.layer(np.zeros((1, reasons.forms.shape[1]))) == (None, None)
    assert reasons.layer(np.full((1, reasons.forms.shape[1]), np.nan)) == (None, None)


@pytest.mark.parametrize(
    ("count", "names"), [(1, "pattern"), (2, "texture shape"), (3, "texture pattern shape")]
)
def test_names_of_layers(count, names):
    assert " ".join(layer_names(count)) == names


def test_words_say_what_is_known_and_no_more():
    says(Why(layer="texture", share=0.41, change="finer").words, "why_both", n=41)
    assert str(Why(layer="texture", share=0.41, change="finer").words) == (
        "texture, finer than usual, 41 %"
    )
    says(Why(layer="shape", share=0.5).words, "why_layer", n=50)
    says(Why(change="darker").words, "why_darker")
    says(Why().words, "why_nothing")
    assert Why(change="blurred").words.text(language="de") == "glatter als sonst"


def test_the_same_fit_gives_the_same_reasons(small_artefact: Artefact, tmp_path):
    from edgeseg.model.artefact import load_artefact, save_artefact

    save_artefact(small_artefact, tmp_path / "m.edgeseg")
    assert load_artefact(tmp_path / "m.edgeseg").reasons == small_artefact.reasons
