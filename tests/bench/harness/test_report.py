"""Tables, pages and figures: one file that needs no other, and numbers that survive the trip."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgeseg.base.errors import UsageError
from edgeseg.bench.harness.figures import Curve, Dot, bars, curves, pareto, pareto_front
from edgeseg.bench.harness.machine import describe
from edgeseg.bench.harness.report import Figure, Report, read_report, write_page, write_report
from edgeseg.bench.harness.tabular import Column, Table
from edgeseg.vision.images import write_image

TABLE = Table(
    title="Speed & <size>",
    columns=(
        Column(name="model"),
        Column(name="PRO", better="high"),
        Column(name="ms", digits=1, better="low"),
        Column(name="difference", signed=True),
    ),
    rows=(("a", 0.9411, 12.04, 0.001), ("b|c", 0.9409, 3.0, -0.5), ("gone", None, None, None)),
    note="A note.",
)


@pytest.fixture(scope="module")
def facts() -> dict[str, Any]:
    return describe(threads=2, seeds=(0, 1))


def make_report(facts: dict[str, Any], folder: Path) -> Report:
    write_image(folder / "map.png", np.full((8, 8, 3), 200, np.uint8))
    return Report(
        name="compare",
        title="A <b>report</b>",
        findings=("One thing & another.",),
        tables=(TABLE,),
        figures=(Figure(title="Map", file="map.png", note="An example."),),
        facts=facts,
        notes=("mSTC is absent.",),
        raw={"x": [1, 2.5, None]},
    )


def test_the_page_is_self_contained(facts: dict[str, Any], tmp_path: Path) -> None:
    page = write_report(make_report(facts, tmp_path), tmp_path)
    html = page.read_text(encoding="utf-8")
    assert "http" not in html
    assert "<script" not in html
    assert "<link" not in html
    assert "@import" not in html
    assert "url(" not in html
    sources = re.findall(r'src="([^"]{0,30})', html)
    assert sources
    assert all(source.startswith("data:image/png;base64,") for source in sources)


def test_the_page_escapes_and_shows_everything(facts: dict[str, Any], tmp_path: Path) -> None:
    html = write_report(make_report(facts, tmp_path), tmp_path).read_text(encoding="utf-8")
    for text in (
        "A &lt;b&gt;report&lt;/b&gt;",
        "Speed &amp; &lt;size&gt;",
        "One thing &amp; another.",
        '<td class="best">0.941</td>',
        "mSTC is absent.",
        facts["commit"],
        "seeds [0, 1]",
    ):
        assert text in html


def test_a_report_survives_its_json(facts: dict[str, Any], tmp_path: Path) -> None:
    report = make_report(facts, tmp_path)
    write_report(report, tmp_path)
    again = read_report(tmp_path)
    assert again.markdown() == report.markdown()
    assert again.raw == report.raw


def test_several_reports_on_one_page(facts: dict[str, Any], tmp_path: Path) -> None:
    report = make_report(facts, tmp_path)
    write_page([(report, tmp_path), (report, tmp_path)], tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text().count("<section>") == 2


def test_facts_name_machine_versions_commit_and_command(facts: dict[str, Any]) -> None:
    assert {"processor", "cores", "versions", "commit", "seeds", "command", "date"} <= set(facts)
    assert "torch" in facts["versions"]
    assert facts["command"].startswith("edgeseg")


def test_the_front_leaves_out_what_is_beaten() -> None:
    def dot(name: str, ms: float, value: float) -> Dot:
        return Dot(name=name, ms=ms, value=value, size_mb=1, group="g")

    dots = [dot("slow", 9, 0.9), dot("best", 5, 0.95), dot("fast", 1, 0.8), dot("bad", 2, 0.7)]
    assert [d.name for d in pareto_front(dots)] == ["fast", "best"]
    nearly = [dot("a", 1, 0.9), dot("b", 2, 0.9001)]  # no difference to anyone
    assert [d.name for d in pareto_front(nearly)] == ["a"]


def test_figures_are_the_same_bytes_for_the_same_numbers(tmp_path: Path) -> None:
    dots = [Dot(name="a", ms=1, value=0.9, size_mb=10, group="edge")] * 2
    lines = [Curve(name="a", x=[1, 10, 100], y=[1, 2, 3], low=[0, 1, 2], high=[2, 3, 5])]
    for number in (1, 2):
        pareto(dots, tmp_path / f"pareto{number}.png", value_name="PRO")
        curves(lines, tmp_path / f"curves{number}.png", x_name="k", y_name="PRO", log_x=True)
        bars(["a", "b"], [1.0, 2.0], tmp_path / f"bars{number}.png", x_name="ms")
    for name in ("pareto", "curves", "bars"):
        first = (tmp_path / f"{name}1.png").read_bytes()
        assert first.startswith(b"\x89PNG")
        assert first == (tmp_path / f"{name}2.png").read_bytes()


def test_mistakes_are_named(facts: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no report\.json; expected the folder of a bench run"):
        read_report(tmp_path)
    report = make_report(facts, tmp_path)
    (tmp_path / "map.png").unlink()
    with pytest.raises(UsageError, match="missing, but the report shows it"):
        write_report(report, tmp_path)


def test_a_module_that_was_run_by_name_is_named_so() -> None:
    code = "from edgeseg.bench.harness.machine import command; print(command())"
    for name, said in (("tests.x", "python -m tests.x --count 3"), ("pytest", "edgeseg --count 3")):
        spec = f"types.SimpleNamespace(name={name!r})"
        main = f"import sys, types; sys.modules['__main__'].__spec__ = {spec}"
        words = [sys.executable, "-c", f"{main}; {code}", "--count", "3"]
        assert subprocess.run(words, capture_output=True, text=True).stdout == f"{said}\n"
