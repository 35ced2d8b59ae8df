"""The tables of documents are what the reports say, and the list of reports has them all."""

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from edgeseg.base.errors import EdgesegError
from edgeseg.bench.harness.tabular import Cell, Column, Table
from edgeseg.bench.results.model_tables import all_models, few_models
from edgeseg.bench.results.tables import BLOCKS, documents, main, with_tables
from edgeseg.bench.results.trust_table import ROWS
from tests.support import REPO

RESULTS = REPO / "bench" / "results"


@pytest.mark.parametrize("page", list(documents(REPO)), ids=lambda page: page.name)
def test_documents_have_the_tables_of_the_reports(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert with_tables(text, RESULTS) == text, "run python -m edgeseg.bench.results.tables"


def test_documents_have_blocks() -> None:
    texts = "".join(page.read_text(encoding="utf-8") for page in documents(REPO))
    begun = {name for name in BLOCKS if f"<!-- {name}: begin -->" in texts}
    assert begun == {name for name in BLOCKS if f"<!-- {name}: end -->" in texts}
    assert begun == set(BLOCKS), "a block that no document has"


def test_new_reports_are_taken_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    reports, page = Path("bench/results/trust"), Path("docs/page.md")
    for folder in (page.parent, reports, Path("new")):
        folder.mkdir(parents=True)
    Path("README.md").touch()
    page.write_text("# Page\n<!-- trust: begin -->\nold\n<!-- trust: end -->\nafter\n")
    row = {"job": "fit", "tried": 3, "killed": 2, "damaged": ["0.5: half"], "not_repeatable": []}
    Path("new/kills.json").write_text(json.dumps({"rows": [row]}))
    Path("new/other.json").write_text("{}")
    result = CliRunner().invoke(main, ["new"])
    assert result.exit_code == 0, result.output
    assert [path.name for path in reports.iterdir()] == ["kills.json"]
    before, *table, after = page.read_text().splitlines()
    assert (before, after) == ("# Page", "after")
    what, often, lost, _ = table[3].strip("| ").split(" | ")
    assert what == "SIGKILL at random moments: fit"
    assert often == "3 each, 3 in all, 2 of them before the command had ended"
    assert lost == "1 damaged"


NAMES = (
    *("model", "precision", "backend", "PRO", "PRO 0.05", "image AUROC", "recall"),
    *("false alarms", "F1", "fit s", "peak MB", "p50 ms", "streamed p50 ms", "processor ms"),
    *("MB", "arithmetic", "spin"),
)
ACCURACY = (0.95311, 0.7, 0.98, 0.876, 0.03, 0.9)


def summary(*rows: tuple[Cell, ...]) -> Table:
    columns = tuple(Column(name=name, better="low" * name.endswith(" ms")) for name in NAMES)
    return Table(title="Summary", columns=columns, rows=rows)


def file(
    model: str, precision: str | None, backend: str, ms: float, arithmetic: str = "float32"
) -> tuple[Cell, ...]:
    spin = "no" if backend == "cpu" else None
    return (model, precision, backend, *ACCURACY, 19, 1351, ms, ms, ms, 5.0, arithmetic, spin)


def test_a_model_is_one_row_with_the_times_of_both_backends() -> None:
    table = summary(
        file("edgeseg net edge", "fp32", "cpu", 20.04),
        file("edgeseg net edge", "fp32", "openvino", 11.0),
        file("edgeseg net edge", "bf16", "openvino", 7.96, "bfloat16"),
    )
    rows = [line.strip("| ").split(" | ") for line in all_models(table).splitlines()]
    accuracy = [".953", ".700", ".980", ".88", ".03", ".90", "19", "1351"]
    assert rows[2:] == [
        ["edgeseg net edge fp32", *accuracy, "20.0", "20.0", "20.0", "11.0", "float32", "no", "5"],
        ["edgeseg net edge bf16", *accuracy, *"---", "**8.0**", "bfloat16", "-", "5"],
    ]


def test_a_row_does_not_mix_arithmetics() -> None:
    table = summary(
        file("edgeseg net edge", "fp32", "cpu", 20.0),
        file("edgeseg net edge", "fp32", "openvino", 8.0, "bfloat16"),
    )
    with pytest.raises(EdgesegError, match="net edge fp32: times of arithmetic bfloat16 and float"):
        all_models(table)


def test_few_models_are_the_default_the_fastest_and_the_peers() -> None:
    table = summary(
        file("edgeseg default edge", "fp32", "cpu", 8.0),
        file("edgeseg default edge", "int8", "cpu", 5.0),
        file("edgeseg slow edge", "fp32", "cpu", 20.0),
        file("edgeseg fast edge", "fp32", "cpu", 2.0),
        file("anomalib PaDiM", None, "cpu", 30.0),
    )
    shown = [line.split(" | ")[0].strip("| ") for line in few_models(table).splitlines()[2:]]
    assert shown == [
        *("edgeseg default edge fp32", "edgeseg default edge int8", "edgeseg fast edge fp32"),
        "anomalib PaDiM",
    ]


def test_a_report_without_masks_has_no_column_of_pro() -> None:
    whole = summary(file("edgeseg net edge", "fp32", "cpu", 8.0))
    kept = [place for place, name in enumerate(NAMES) if not name.startswith("PRO")]
    bare = Table(
        title="Summary",
        columns=tuple(whole.columns[place] for place in kept),
        rows=tuple(tuple(row[place] for place in kept) for row in whole.rows),
    )
    for text in (few_models(bare), all_models(bare)):
        heading, _, row = text.splitlines()
        assert "PRO" not in heading
        assert "image AUROC" in heading
        assert "| .980 |" in row


def test_every_report_stands_in_a_document() -> None:
    """A report that only the list of reports names is evidence for nothing."""
    pages = [*documents(REPO), REPO / "bench" / "README.md", REPO / "SECURITY.md"]
    texts = "".join(page.read_text(encoding="utf-8") for page in pages)
    named = {REPO / link for link in re.findall(r"bench/results/[\w./-]+\.(?:md|txt|json)", texts)}
    named |= {RESULTS / "trust" / f"{name}.json" for name in ROWS}  # by the table of trust
    assert all(path.is_file() for path in named)
    told = {path.with_suffix("") for path in named}
    reports = {path for path in RESULTS.rglob("*") if path.suffix in (".json", ".md", ".txt")} - {
        RESULTS / "README.md"
    }
    assert {path for path in reports if path.with_suffix("") not in told} == set()


def test_every_report_is_listed() -> None:
    page = (RESULTS / "README.md").read_text(encoding="utf-8")
    files = [path for path in RESULTS.rglob("*") if path.suffix in (".json", ".md", ".txt")]
    folders = {path.parent.relative_to(RESULTS).as_posix() for path in files} - {"."}
    assert {name for name in folders if f"]({name}/" not in page} == set()
