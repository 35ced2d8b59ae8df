"""What the report of a comparison says of presets, precisions and peers."""

import pytest

from edgeseg.bench.compare.candidates import OurModel
from edgeseg.bench.compare.findings import (
    costs_of_precision,
    edge_beside_paper,
    findings_of,
    peers_beside_ours,
)
from edgeseg.bench.compare.record import ComparedFile


def row(
    preset: str, precision: str, *, pro: float | None, image_auroc: float | None, p50_ms: float
) -> ComparedFile:
    model = OurModel.of("resnet18", preset, (precision,))
    return ComparedFile(
        model=model.name,
        precision=precision,
        backend="cpu",
        accuracy={"pro": pro, "image_auroc": image_auroc},
        p50_ms=p50_ms,
        megabytes=27.0,
        settings=model,
    )


PAPER = row("paper", "fp32", pro=0.93, image_auroc=0.88, p50_ms=25.0)


@pytest.mark.parametrize(
    ("pro", "image_auroc", "p50_ms", "verdict"),
    [
        (0.95, 0.96, 20.0, "better in all of it"),
        (0.95, 0.87, 20.0, "not as expected in image AUROC"),
        (0.92, 0.96, 30.0, "not as expected in PRO and speed"),
    ],
)
def test_where_edge_breaks_its_promise(
    pro: float, image_auroc: float, p50_ms: float, verdict: str
) -> None:
    edge = row("edge", "fp32", pro=pro, image_auroc=image_auroc, p50_ms=p50_ms)
    (sentence,) = edge_beside_paper([edge, PAPER])
    assert sentence.startswith("resnet18 fp32, preset edge against paper: PRO")
    assert sentence.endswith(f"{verdict}.")


def test_precisions_that_cost_accuracy() -> None:
    rows = [
        row("edge", "fp32", pro=0.950, image_auroc=0.960, p50_ms=20.0),
        row("edge", "fp16", pro=0.949, image_auroc=0.957, p50_ms=20.0),
        row("edge", "int8", pro=0.930, image_auroc=0.959, p50_ms=10.0),
        row("paper", "int8", pro=0.900, image_auroc=0.900, p50_ms=10.0),  # nothing to compare
    ]
    sentence = "resnet18 edge in int8 is less accurate than in fp32: PRO 0.930 against 0.950."
    assert list(costs_of_precision(rows)) == [sentence]


def test_what_was_not_measured_is_not_compared() -> None:
    unknown = row("edge", "fp32", pro=None, image_auroc=None, p50_ms=1.0)
    sentences = list(findings_of([unknown, PAPER]))
    assert sentences[0].startswith("resnet18 paper fp32: mean PRO 0.930 in 25.0 ms")
    assert sentences[1:] == [
        "resnet18 fp32, preset edge against paper: 1.0 ms against 25.0; better in all of it."
    ]


def test_peers_stand_beside_the_first_of_ours_in_its_backend() -> None:
    peer = ComparedFile(model="anomalib PaDiM", backend="cpu", accuracy={"pro": 0.9}, p50_ms=50.0)
    elsewhere = ComparedFile(model="anomalib PaDiM", backend="openvino", p50_ms=40.0)
    assert list(peers_beside_ours([PAPER, peer, elsewhere])) == [
        "anomalib PaDiM: 50.0 ms per frame against 25.0 of resnet18 paper fp32; "
        "PRO 0.900 against 0.930."
    ]
