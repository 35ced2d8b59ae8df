"""Tables of recall by the number of good images: every figure is one of a row."""

from pathlib import Path

from edgeseg.base.plain import parse_json
from edgeseg.bench.choices.by_images import ALL, ImagesRow
from edgeseg.bench.harness.tabular import table_of
from edgeseg.bench.results.recall_table import recall_table, rules_table, write_usual_recall


def row(images: str, rule: str, recall: float) -> ImagesRow:
    return ImagesRow(
        images=images, rule=rule, stated=0.05, image_auroc=0.9, recall=recall,
        recall_low=recall - 0.1, recall_high=recall + 0.1, flagged=recall / 10,
        flagged_low=0.0, flagged_high=0.2, categories=12, fits=24,
    )  # fmt: skip


def test_both_rules_share_a_line() -> None:
    few = [row("9", "tail", 0.5), row("9", "ranks", 0.4)]
    rows = [*few, row(ALL, "tail", 0.7), row(ALL, "ranks", 0.6)]
    lines = recall_table(table_of("t", rows)).splitlines()
    cells = [line.strip("| ").split(" | ") for line in lines[2:]]
    assert cells[0][:4] == ["9", "12", "5.0%", "0.900"]
    assert cells[0][4:] == ["0.50", "0.40 to 0.60", "5.0%", "0.40", "0.30 to 0.50", "4.0%"]
    assert [line[0] for line in cells] == ["9", ALL]


def test_a_fit_is_told_of_numbers_alone(tmp_path: Path) -> None:
    """All images are another number in each category."""
    rows = [row(count, rule, 0.5) for count in ("9", ALL) for rule in ("tail", "ranks")]
    write_usual_recall(table_of("t", rows), tmp_path / "usual.json")
    (told,) = parse_json((tmp_path / "usual.json").read_text())
    assert (told["images"], told["recall"], told["flagged"]) == (9, 0.5, 0.05)


def test_a_line_for_each_rule() -> None:
    counts = ("10", "20", "40", "80", ALL)
    rows = [row(count, rule, 0.5) for count in (*counts, "5") for rule in ("tail", "other")]
    head, _, *lines = rules_table(rows).splitlines()
    assert head.count("images") == len(counts)
    assert lines == [f"| {rule} |{' 0.50, 5.0% |' * len(counts)}" for rule in ("tail", "other")]
