"""The light reader says what the heavy one says, of whole files and of damaged ones."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from edgeseg.base.errors import ArtefactError
from edgeseg.model.artefact import load_artefact
from edgeseg.modelfile.header import SCHEMA, read_floats, read_header, replace_header
from tests.support.commands import fail

FOREIGN = {"a": np.zeros(2)}


def kind(read, path: Path) -> str:
    """An error's sentence without what is in brackets: the words of safetensors differ."""
    with pytest.raises(ArtefactError) as caught:
        read(path)
    before, _, after = str(caught.value).partition(" (")
    return before + after.rpartition(")")[2]


def test_whole_files(small_artefact_path):
    whole = load_artefact(small_artefact_path).header()
    assert read_header(small_artefact_path) == json.loads(json.dumps(whole))


def test_cut_files(small_artefact_path, tmp_path):
    data, path = small_artefact_path.read_bytes(), tmp_path / "m.edgeseg"
    length = 8 + int.from_bytes(data[:8], "little")
    for end in (0, 3, 8, 9, length - 1, length, length + 1, len(data) // 2, len(data) - 1):
        path.write_bytes(data[:end])
        assert kind(read_header, path) == kind(load_artefact, path)
    assert kind(read_header, path).startswith(f"{path}: truncated; expected a whole file")


@pytest.mark.parametrize(
    "content",
    [
        b"hello, this is a text file\n" * 9,
        b"\x05" + bytes(7) + b"{abc}",
        b"\x02" + bytes(7) + b"[]",
        b"\x02" + bytes(7) + b"\xff\xfe",
        b"\x07" + bytes(7) + b'{"a":1}',
        bytes(8),
    ],
)  # fmt: skip
def test_files_of_another_kind(tmp_path, content):
    path = tmp_path / "m.edgeseg"
    path.write_bytes(content)
    assert kind(read_header, path) == kind(load_artefact, path)
    assert kind(read_header, path) == (
        f"{path}: not an edgeseg artefact; expected a whole file written by edgeseg fit"
    )


@pytest.mark.parametrize(
    "metadata",
    [
        None,
        {"format": "pt"},
        {"edgeseg": "[1"},
        {"edgeseg": "[1]"},
        {"edgeseg": "{}"},
        {"edgeseg": json.dumps({"schema": 0})},
        {"edgeseg": json.dumps({"schema": 99})},
        {"edgeseg": json.dumps({"schema": "1"})},
    ],
)
def test_other_safetensors_files_and_other_schemas(tmp_path, metadata):
    path = tmp_path / "m.edgeseg"
    save_file(FOREIGN, path, metadata)
    assert kind(read_header, path) == kind(load_artefact, path)


def test_no_file(tmp_path):
    path = tmp_path / "m.edgeseg"
    assert kind(read_header, path) == kind(load_artefact, path)
    assert kind(read_header, tmp_path) == kind(load_artefact, tmp_path)


def test_edited_metadata_is_one_sentence(tmp_path):
    path, text = tmp_path / "m.edgeseg", b'{"__metadata__":{"edgeseg":1}}'
    path.write_bytes(len(text).to_bytes(8, "little") + text)
    assert fail("info", path, code=1).startswith(f"{path}: not an edgeseg artefact (")


def test_info_needs_no_torch(small_artefact_path):
    code = (
        "import sys; from edgeseg.cli.group import cli\n"
        "cli(['info', sys.argv[1], '--json'], standalone_mode=False)\n"
        "print(*({'torch', 'safetensors', 'onnx'} & set(sys.modules)), file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(small_artefact_path)],
        capture_output=True, text=True, check=True, env=os.environ,
    )  # fmt: skip
    assert done.stderr == "\n"
    assert json.loads(done.stdout)["schema"] == SCHEMA


def test_a_header_is_written_as_the_heavy_writer_does(artefact_copy):
    before = artefact_copy.read_bytes()
    replace_header(artefact_copy, read_header(artefact_copy))
    assert artefact_copy.read_bytes() == before


def test_another_header_leaves_the_tensors_alone(artefact_copy):
    before, header = load_artefact(artefact_copy), read_header(artefact_copy)
    header["data"]["name"] = "größer als vorher"
    replace_header(artefact_copy, header)
    after = load_artefact(artefact_copy)
    assert after.data["name"] == "größer als vorher"
    assert np.array_equal(after.embedding, before.embedding)
    assert np.array_equal(after.factors.factor, before.factors.factor)


def test_floats_are_read_without_torch(artefact_copy):
    good = load_artefact(artefact_copy).calibration.good
    assert read_floats(artefact_copy, "good.scores").tolist() == good.scores.tolist()
    assert read_floats(artefact_copy, "good.peaks").tolist() == good.peaks.tolist()
    assert read_floats(artefact_copy, "moments.mean") is None, "float64"
    assert read_floats(artefact_copy, "nothing") is None
