"""Grey among colour and 12 bits in files of 16: said in one sentence, at every door."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgeseg.data.datasets import open_dataset
from edgeseg.fitting.fitting import fit
from edgeseg.model.artefact import save_artefact
from edgeseg.runtime.capture.frame_buffer import Frame
from edgeseg.runtime.scoring.meters import StreamMeters
from edgeseg.runtime.scoring.scorer import Scorer, ScorerConfig
from edgeseg.vision.appearance import GoodAppearance, appearance_of
from edgeseg.vision.images import read_image, read_with_bits, write_image
from edgeseg.vision.picture_kinds import PictureKinds, colour_of, colour_sentence, is_grey
from tests.doubles.fakes import BrightnessSession
from tests.support.brightness_model import brightness_metadata, write_brightness_model
from tests.support.commands import succeed
from tests.support.picture_bytes import encode
from tests.support.shares import TINY
from tests.support.small_models import RANDOM, frames

PARTS = frames(8, size_hw=(64, 64))
GREY = np.repeat(PARTS[..., 1:2], 3, axis=3)


def said(kinds: list[tuple[bool, int | None]], **fitted: str) -> list[str]:
    seen = PictureKinds()
    for grey, used_bits in kinds:
        seen.add(grey=grey, used_bits=used_bits)
    return list(seen.sentences(**fitted))


def notes_of_fit(folder: Path) -> list[str]:
    lines: list[str] = []
    fit(open_dataset(folder), TINY, replace(RANDOM, planted=0, note=lines.append))
    return lines


def test_grey_is_what_has_equal_channels():
    assert is_grey(GREY[0])
    assert not is_grey(PARTS[0])
    assert [colour_of(grey=grey, count=4) for grey in (0, 2, 4)] == ["colour", "mixed", "grey"]


def test_one_kind_is_passed_over():
    assert said([]) == said([(True, None)] * 3) == said([(False, 16)] * 3) == []
    assert said([(True, None)], fitted="grey") == said([(True, None)], fitted="mixed") == []


@pytest.mark.parametrize(
    ("used", "bits", "factor"), [(9, 10, 64), (10, 10, 64), (11, 12, 16), (12, 12, 16), (13, 14, 4)]
)
def test_bits_of_cameras_are_named_with_the_factor_that_mends_them(used, bits, factor):
    (sentence,) = said([(True, 8), (True, used), (True, None)])
    assert sentence == (
        f"pictures of 16 bits, 2 of 3, have no value of {1 << bits} or more, as those of a camera "
        f"of {bits} bits, and so are dark; scale them, here and where the model will run, for "
        f"example: magick mogrify -evaluate multiply {factor} *.png"
    )
    assert said([(True, used), (True, 15)]) == [], "another one is bright"


def test_the_bits_that_a_file_uses(tmp_path):
    for value, used in ((4095, 12), (4096, 13), (0, 0), (65535, 16)):
        (tmp_path / "deep.png").write_bytes(encode(".png", np.full((8, 8), value, np.uint16)))
        image_hwc, used_bits = read_with_bits(tmp_path / "deep.png")
        assert used_bits == used
        np.testing.assert_array_equal(image_hwc, read_image(tmp_path / "deep.png"))
    write_image(tmp_path / "plain.png", PARTS[0])
    assert read_with_bits(tmp_path / "plain.png")[1] is None


def test_a_fit_says_so(tmp_path: Path):
    for index, part in enumerate(PARTS):
        deep = part[..., ::-1].astype(np.uint16) * 16
        (tmp_path / f"{index}.png").write_bytes(encode(".png", deep))
    (sentence,) = [line for line in notes_of_fit(tmp_path) if "16 bits" in line]
    assert "8 of 8" in sentence
    assert "multiply 16" in sentence
    for index, part in enumerate(PARTS):
        write_image(tmp_path / f"{index}.png", part if index else GREY[0])
    assert (
        "grey pictures among 8: 1, the others are in colour; expected one kind, as the camera will "
        "give it"
    ) in notes_of_fit(tmp_path)


def test_predict_says_so_once(small_artefact, tmp_path: Path):
    save_artefact(small_artefact, tmp_path / "m.edgeseg")
    for index, part in enumerate(GREY[:2]):
        write_image(tmp_path / "grey" / f"{index}.png", part)
        deep = part.astype(np.uint16) * 16
        (tmp_path / "grey" / f"deep{index}.png").write_bytes(encode(".png", deep))
    told = succeed("predict", tmp_path / "m.edgeseg", tmp_path / "grey").stderr.splitlines()
    assert told.count(colour_sentence(True, "colour")) == 1
    assert sum("16 bits, 2 of 4" in line for line in told) == 1


def metadata_of(colour: str):
    metadata = brightness_metadata(threshold=1000.0)
    looks = GoodAppearance.of([appearance_of(part) for part in PARTS])
    limits = replace(looks.limits, colour=colour)
    return replace(metadata, threshold=replace(metadata.threshold, appearance=limits))


def test_calibrate_says_so(tmp_path: Path):
    write_brightness_model(tmp_path / "m.onnx", metadata=metadata_of("grey"))
    for index, part in enumerate(PARTS):
        write_image(tmp_path / "good" / f"{index}.png", part)
    told = succeed("calibrate", tmp_path / "m.onnx", tmp_path / "good").stderr
    assert colour_sentence(False, "grey") in told


@pytest.mark.parametrize(
    ("colour", "image_hwc", "odd"),
    [
        ("colour", GREY[0], True),
        ("grey", PARTS[0], True),
        ("grey", GREY[0], False),
        ("mixed", GREY[0], False),
        ("colour", np.zeros_like(GREY[0]), False),
    ],
)
def test_a_stream_says_so_of_its_first_frame(colour, image_hwc, odd):
    session = BrightnessSession(metadata_of(colour))
    scorer = Scorer(session, ["camera"], config=ScorerConfig(), meters=StreamMeters(1))
    frame = Frame(
        source_index=0, frame_index=0, image_hwc=image_hwc, channels="rgb", grabbed_ns=0,
        wall_s=0.0, name="",
    )  # fmt: skip
    assert (scorer.odd_colour(frame) is not None) == odd
