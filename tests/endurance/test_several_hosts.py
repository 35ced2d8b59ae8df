"""The study of several hosts: its judgement, on made-up runs; the runs need minutes."""

from pathlib import Path

import pytest

from tests.endurance.several_hosts import Fitted, Study, compared, fit_once
from tests.support.hosts import Host


def fitted(digest: str) -> Fitted:
    return Fitted(
        what="a run", seconds=1.0, megabytes_sent=0.0, ended="0", said=[], same_bytes=digest
    )


def test_every_model_is_compared_with_the_first() -> None:
    digests = ["ab", "ab", "no model", "cd", "ab"]
    found = [row.same_bytes for row in compared(fitted(digest) for digest in digests)]
    assert found == ["yes", "yes", "no model", "NO", "yes"]


class Ended:
    """A program that has ended by itself."""

    returncode = 1

    def poll(self) -> int:
        return self.returncode

    def kill(self) -> None:
        pass

    wait = kill


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Study:
    made = Study(data=tmp_path, folder=tmp_path, settings=(), processes=2)
    monkeypatch.setattr(Host, "start", lambda *_, **__: Ended())
    counts = iter([1_000_000, 5_000_000, 3_000_000, 6_000_000])
    monkeypatch.setattr(Host, "sent_bytes", lambda _: next(counts))
    return made


def machine(place: int) -> Host:
    return Host(name=f"h{place}", names=Path("h"), address="", switch="s", port="p")


def test_what_was_said_and_sent(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    def speak(study: Study, machines: object, programs: object) -> None:
        for place in range(2):
            (study.folder / f"said-{place}").write_text("of torchrun\nError: it is lost\nmore\n")

    row = fit_once(study, "a loss", [machine(0), machine(1)], speak)
    assert row.said == ["Error: it is lost"], "once, whoever says it"
    assert row.ended == "1 1"
    assert row.megabytes_sent == 2.0, "by the host that sent most: 3 - 1, and 6 - 5"
    assert row.same_bytes == "no model"


def test_a_fit_that_ends_too_soon_is_no_finding(study: Study) -> None:
    with pytest.raises(SystemExit, match="ended before its middle"):
        study.wait_for_middle([Ended()])  # type: ignore[list-item]
