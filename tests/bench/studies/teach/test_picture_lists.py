"""What a list of pictures costs is measured, on a folder of a few."""

from click.testing import CliRunner

from edgeseg.bench.studies.teach import picture_lists


def test_each_question_has_its_line(monkeypatch):
    monkeypatch.setattr(picture_lists, "_RESTED_S", 0.0)
    result = CliRunner().invoke(picture_lists.main, ["--pictures", "8"], catch_exceptions=False)
    names = [line[:10].strip() for line in result.output.splitlines()]
    assert names == ["unchanged", "state", "one more", "thumbnail", "first"]
