"""Planted against real defects: correlations of made-up fits, and the command on a report."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from edgeseg.bench.harness.machine import describe
from edgeseg.bench.harness.report import Report, write_report
from edgeseg.bench.studies.decide.planted import Fit, Study, main
from edgeseg.bench.studies.decide.trial import Tried
from edgeseg.errors import UsageError

GOOD = tuple(float(number) for number in range(1, 101))  # 95 is exceeded by 5 %


def fit_of(setting: str, category: str, *, planted: float, real: float) -> Fit:
    """With these shares of ten planted and ten real defects above every good image."""

    def scores(share: float) -> tuple[float, ...]:
        found = round(10 * share)
        return (200.0,) * found + (0.5,) * (10 - found)

    tried = Tried(
        figures={}, scores=(*scores(real), 1.0, 96.0), labels=(1,) * 10 + (0, 0),
        kinds=("x",) * 10 + ("good",) * 2, good=GOOD, peaks=GOOD, planted=scores(planted),
        planted_kinds=("stain",) * 5 + ("scratch",) * 5, planted_areas=(0.1,) * 10,
        method="cross-conformal", unseen=True, rate=0.05, reads=1, fit_s=1.0,
    )  # fmt: skip
    return Fit(setting=setting, category=category, seed=0, tried=tried)


# Settings are ranked alike by both on x, and in the opposite order on y.
FITS = [
    fit_of("a", "x", planted=0.2, real=0.4),
    fit_of("b", "x", planted=0.4, real=0.6),
    fit_of("a", "y", planted=0.9, real=0.5),
    fit_of("b", "y", planted=0.8, real=0.6),
]


def test_agreement_and_choices():
    study = Study(FITS)
    agreement = next(study.tables())
    rows = {row[0]: row[1:] for row in agreement.rows}
    planted, real, fits, categories, settings, within = rows["recall 5 %"]
    assert (planted, real) == pytest.approx((0.575, 0.525))
    assert (categories, settings, within) == pytest.approx((1.0, 1.0, 0.0))
    assert fits == pytest.approx(0.316, abs=1e-3)  # ranks 1 2 4 3 against 1 3.5 2 3.5
    by_category = {row.category: row for row in study.of_categories("recall 5 %")}
    assert (by_category["x"].spearman, by_category["y"].spearman) == pytest.approx((1, -1))
    assert (by_category["y"].chosen, by_category["y"].reached) == ("a", 0.5)
    assert by_category["y"].best == 0.6
    assert (
        "misleads on y: recall 5 % of planted defects is 0.30 more than that of real ones"
        in study.findings()
    )


def test_kinds_and_bins():
    tables = {table.title: table for table in Study(FITS).tables()}
    kinds = {row[0]: row[1:] for row in tables["Kinds of planted defects"].rows}
    assert kinds["stain"][:2] == (20, pytest.approx((0.4 + 0.8 + 1 + 1) / 4))
    bins = [row for row in tables["Calibration"].rows if row[0] == "5 %"]
    assert [row[2] for row in bins] == [0, 1, 1, 0, 2]  # 0.2 is of the second, 0.8 of the last
    assert bins[-1][3:] == pytest.approx((0.55, 0.5, 0.6))


def write_choices(folder: Path, *, name: str = "choices", planted: bool = True) -> Path:
    folder.mkdir()
    raw = {}
    for each in FITS:
        result = each.tried.to_dict()
        raw[f"{each.setting} {each.category} seed 0"] = (
            result if planted else result | {"planted": [], "planted_kinds": []}
        )
    raw["c x seed 0"] = {"failed": "too large"}
    facts = describe(threads=1)
    report = Report(
        name=name, title="", findings=(), tables=(), figures=(), facts=facts, raw=raw
    )  # fmt: skip
    write_report(report, folder)
    return folder


def test_the_command(tmp_path):
    data = write_choices(tmp_path / "choices")
    result = CliRunner().invoke(main, [str(data), "--out", str(tmp_path / "out")])
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("recall 1 %: planted 0.57, real 0.5")
    assert (tmp_path / "out" / "calibration.png").stat().st_size > 1000
    assert "### Calibration" in (tmp_path / "out" / "report.md").read_text()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"name": "paper"}, "a report of paper, expected one of choices"),
        ({"planted": False}, "a fit without planted defects; run choices with --planted 48"),
    ],
)
def test_what_it_cannot_read(tmp_path, options, sentence):
    data = write_choices(tmp_path / "choices", **options)
    result = CliRunner().invoke(main, [str(data), "--out", str(tmp_path / "out")])
    assert result.exit_code == 1
    assert result.stderr.endswith(f"{sentence}\n")


def test_no_fits():
    with pytest.raises(UsageError, match="no fits in these folders; expected results of choices"):
        Study([])
