"""The trigger of the line and that of the camera agree."""

from pathlib import Path

import pytest

from edgeseg.base.errors import UsageError
from edgeseg.runtime.capture.sources import parse_source
from edgeseg.runtime.run.line import _with_trigger, source_texts
from edgeseg.runtime.settings.options import StreamOptions
from edgeseg.runtime.settings.trigger_kinds import TRIGGERS


def told(source: str, trigger: str) -> str:
    (text,) = source_texts(
        StreamOptions(model=Path("part.onnx"), source=(source,), trigger=trigger)
    )
    return text


@pytest.mark.parametrize(
    ("source", "trigger", "expected"),
    [
        ("aravis:", "hardware", "aravis:trigger=hardware"),
        ("aravis:GV01", "hardware", "aravis:GV01,trigger=hardware"),
        ("aravis:GV01,trigger=hardware,line=Line2", "hardware", None),
        ("aravis:GV01,trigger=hardware", "free", None),
        ("aravis:GV01", "free", None),
        ("aravis:GV01", "part", None),
        ("0", "hardware", None),
        ("rtsp://admin:trigger=software@cam/1", "free", None),
    ],
)
def test_a_camera_takes_the_trigger_of_its_line(
    source: str, trigger: str, expected: str | None
) -> None:
    text = told(source, trigger)
    assert text == (expected or source)
    if expected:
        assert parse_source(text).trigger == "hardware"


@pytest.mark.parametrize(
    ("source", "trigger", "message"),
    [
        (
            "aravis:,trigger=off",
            "hardware",
            "aravis:,trigger=off has a trigger of its own",
        ),
        ("aravis:,trigger=software", "hardware", "leave one of them out"),
        ("aravis:,trigger=software", "free", "waits for software to trigger it, and nobody does"),
        ("aravis:,trigger=software", "part", "expected one of "),
    ],
)
def test_two_triggers_that_disagree_are_refused(source: str, trigger: str, message: str) -> None:
    with pytest.raises(UsageError) as error:
        told(source, trigger)
    assert message in str(error.value)


@pytest.mark.parametrize("trigger", [name for name, kind in TRIGGERS.items() if kind.adapter])
def test_an_adapter_fires_a_camera_that_waits_for_software(trigger: str) -> None:
    source = "aravis:GV01,trigger=software"
    assert _with_trigger(source, trigger) == source
