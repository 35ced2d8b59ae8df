"""A row of times says in what they were computed, and mixes neither arithmetics nor spins."""

import pytest

from edgeseg.bench.harness.tabular import Column, Table
from edgeseg.bench.peers.readme import readme_table
from edgeseg.bench.peers.report import computed_in
from edgeseg.errors import EdgesegError

CPU = {"arithmetic": "float32", "spin": False}


def test_one_arithmetic_and_one_spin_a_row() -> None:
    openvino = {"arithmetic": "float32", "spin": None}
    assert computed_in("net", [CPU, openvino]) == {"arithmetic": "float32", "spin": "no"}
    assert computed_in("net", [None, openvino]) == {"arithmetic": "float32", "spin": None}
    assert computed_in("net", [None, None]) == {"arithmetic": None, "spin": None}


@pytest.mark.parametrize(
    ("other", "mixed"),
    [
        ({"arithmetic": "bfloat16", "spin": None}, "arithmetic bfloat16 and float32"),
        ({"arithmetic": "float32", "spin": True}, "spin no and yes"),
    ],
)
def test_a_row_that_mixes_is_refused(other: dict[str, object], mixed: str) -> None:
    with pytest.raises(EdgesegError) as caught:
        computed_in("net", [CPU, other])
    assert str(caught.value) == (
        f"net: times of {mixed}, expected one in a row; time each in a row of its own"
    )


def test_the_table_of_the_readme_says_spin_and_arithmetic() -> None:
    columns = ("model", "PRO", "PRO 0.05", "F1", "p50 ms", "p50 ms OpenVINO", "arithmetic", "spin")
    columns += ("state",)
    table = Table(
        title="Ours and theirs",
        columns=tuple(Column(name=name, better="low" * ("ms" in name)) for name in columns),
        rows=(
            ("edgeseg net fp32", 0.95311, 0.7, 0.876, 20.04, 11.0, "float32", "no", "measured"),
            ("edgeseg net bf16", 0.9, None, None, None, 7.96, "bfloat16", None, "measured"),
        ),
    )
    assert readme_table(table) == [
        "| model | PRO | PRO .05 | F1 | ms | ms OpenVINO | arithmetic | spin |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
        "| edgeseg net fp32 | .953 | .700 | .88 | 20.0 | 11.0 | float32 | no |",
        "| edgeseg net bf16 | .900 | - | - | - | **8.0** | bfloat16 | - |",
    ]


def test_older_runs_did_not_say_it() -> None:
    columns = tuple(Column(name=name) for name in ("model", "p50 ms", "p50 ms OpenVINO"))
    table = Table(title="", columns=columns, rows=(("edgeseg net fp32", 20.0, 11.0),))
    assert readme_table(table)[0] == "| model | ms |"
