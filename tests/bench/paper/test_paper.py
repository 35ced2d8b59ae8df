"""What the report of the paper's experiments says where the data agrees, and where not."""

from pathlib import Path

import pytest

from edgeseg.bench.harness.units import UnitResults
from edgeseg.bench.paper.distances_over_k import Variant
from edgeseg.bench.paper.experiments import unit_name
from edgeseg.bench.paper.parts import PaperOptions
from edgeseg.bench.paper.results import Findings

SIZES = (10, 100)
Curves = dict[str, tuple[float, float]]
ORDERED: Curves = {
    "semi_orthogonal": (0.7, 0.93),
    "sampled": (0.6, 0.92),
    "gaussian": (0.65, 0.91),
}


def findings(curves: Curves, *, seeds: int = 1) -> Findings:
    """Curves over k of one category, the same for every seed but for a hundredth."""
    results = {}
    for kind, values in curves.items():
        for seed in range(seeds):
            label = Variant(embedding=kind, sizes=SIZES, seed=seed).label
            results[unit_name("grid", "resnet18", label)] = {
                str(size): {"pro": value + seed / 100}
                for size, value in zip(SIZES, values, strict=True)
            }
    options = PaperOptions(mvtec=Path(), curve_sizes=SIZES, curve_seeds=seeds)
    done = UnitResults(results=results, commits=(), seconds=0.0)
    return Findings(done=done, options=options, categories=["grid"], weights={})


def test_the_curve_as_published_is_said_to_be_so() -> None:
    tie = {"sampled": (0.6, 0.9301)}
    (sentence,) = findings(ORDERED | tie).sentences()
    assert sentence == "Over k, as published: nothing is above semi-orthogonal at any size."


def test_a_curve_that_disagrees_is_named_with_its_sizes() -> None:
    (sentence,) = findings(ORDERED | {"sampled": (0.6, 0.94)}).sentences()
    assert sentence == (
        "Over k, not as published: above semi-orthogonal is sampled at k=100 (0.940 against 0.930)."
    )


def test_without_all_three_curves_nothing_is_said() -> None:
    curves = {kind: values for kind, values in ORDERED.items() if kind != "gaussian"}
    assert not list(findings(curves).sentences())


def test_one_seed_has_no_deviation() -> None:
    assert findings(ORDERED).curve("sampled", 100) == (pytest.approx(0.92), None)
    mean, spread = findings(ORDERED, seeds=3).curve("sampled", 100) or (0.0, None)
    assert (mean, spread) == (pytest.approx(0.93), pytest.approx(0.01))
