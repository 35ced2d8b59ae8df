"""Whose files a device takes: signed ones as they were signed, and no others."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("cryptography", reason="needs cryptography: pip install edgeseg[sign]")

from edgeseg.base.errors import EdgesegError, RuntimeFailure, UsageError
from edgeseg.decision.score_statistics import ScoreStatistics
from edgeseg.modelfile.signature import (
    check_signature,
    check_trusted,
    no_longer_fits,
    read_signature,
    sign,
    signature_facts,
    signature_path,
)
from edgeseg.modelfile.signing_keys import make_keys
from edgeseg.runtime.backends.choose import open_session
from edgeseg.runtime.backends.session_options import SessionOptions
from edgeseg.vision.images import write_image
from tests.support.brightness_model import brightness_metadata, write_brightness_model
from tests.support.commands import fail, succeed


@pytest.fixture
def keys(tmp_path: Path) -> tuple[Path, Path]:
    return make_keys(tmp_path / "keys" / "owner.key")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    write_brightness_model(tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


def refusal(path: Path, *trusted: Path) -> str:
    with pytest.raises(RuntimeFailure) as caught:
        check_signature(path, trusted)
    prefix, rest = str(caught.value).split(": ", 1)
    assert prefix == str(path)
    return rest


def test_a_signed_model_is_taken(model, keys):
    private, public = keys
    assert sign(model, private, chain={"artefact_sha256": "0" * 64}) == signature_path(model)
    statement = check_signature(model, [public])
    assert set(statement.files) == {"m.onnx", "m.json"}
    assert statement.chain == {"artefact_sha256": "0" * 64}
    with open_session(model, SessionOptions(backend="cpu", trust=(public,))) as session:
        assert session.metadata.name == "brightness"


def test_a_model_without_a_signature(model, keys):
    _, public = keys
    sentence = (
        "not signed, and only files of a trusted key may be used here; sign it with "
        f"`edgeseg sign {model} --key KEY`"
    )
    assert refusal(model, public) == sentence
    with pytest.raises(RuntimeFailure, match="not signed"):
        open_session(model, SessionOptions(backend="cpu", trust=(public,)))


def test_a_key_that_nobody_trusts(model, keys, tmp_path):
    other, other_public = make_keys(tmp_path / "keys" / "other.key")
    sign(model, other, chain={})
    assert refusal(model, keys[1]).startswith("signed by ")
    check_signature(model, [keys[1], other_public])  # one of several


@pytest.mark.parametrize(
    ("name", "how"),
    [("m.onnx", "changed"), ("m.json", "changed"), ("m.json", "removed")],
)
def test_what_changed_since_is_named(model, keys, name, how):
    private, public = keys
    sign(model, private, chain={})
    path = model.with_name(name)
    if how == "removed":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes() + b" ")
    said = refusal(model, public)
    assert said.startswith(f"{path.name} was {how} since it was signed; if that was meant, sign it")


def test_a_forged_statement(model, keys):
    private, public = keys
    sign(model, private, chain={})
    path = signature_path(model)
    signed = json.loads(path.read_text())
    model.write_bytes(model.read_bytes() + b"\x12\x01x")
    statement = signed["statement"]
    files = dict.fromkeys(statement["files"], "0" * 64)
    stored = signed | {"statement": statement | {"files": files}}
    for text in (json.dumps(stored), json.dumps(signed | {"signature": "no base64!"})):
        path.write_text(text)
        assert refusal(model, public) == "its signature is forged or damaged; sign it again"


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"statement": 3, "signature": ""}', "[" * 9999])
def test_a_damaged_signature_is_one_sentence(model, keys, text):
    signature_path(model).write_text(text)
    with pytest.raises(RuntimeFailure, match="not a signature"):
        check_signature(model, [keys[1]])


def test_a_recipe_is_signed_as_a_whole(model, keys, tmp_path):
    private, public = keys
    folder = tmp_path / "bottle"
    (folder / "golden" / "good").mkdir(parents=True)
    (folder / "checks").mkdir()
    for name in ("m.onnx", "m.json"):
        shutil.copyfile(model.with_name(name), folder / name)
    (folder / "recipe.toml").write_text("number = 1\n")
    (folder / "golden" / "good" / "1.png").write_bytes(b"x")
    sign(folder, private, chain={})
    (folder / "checks" / "today.json").write_text("{}")  # what the station writes by itself
    statement = check_trusted(folder / "m.onnx", [public])
    assert set(statement.files) == {"m.onnx", "m.json", "recipe.toml", "golden/good/1.png"}
    (folder / "recipe.toml").write_text("number = 1\nthreshold = 1e9\n")
    with pytest.raises(RuntimeFailure, match=r"recipe\.toml was changed since it was signed"):
        check_trusted(folder / "m.onnx", [public])
    (folder / "recipe.toml").write_text("number = 1\n")
    (folder / "golden" / "bad.png").write_bytes(b"")
    with pytest.raises(RuntimeFailure, match=r"golden/bad\.png was added"):
        check_trusted(folder / "m.onnx", [public])


def test_keys_are_private_and_never_replaced(keys, tmp_path):
    private, public = keys
    assert private.stat().st_mode & 0o077 == 0
    with pytest.raises(UsageError, match="exists already; a key is never replaced"):
        make_keys(private)
    for path, text in ((tmp_path / "a", "hello"), (tmp_path / "b", ""), (tmp_path / "gone", None)):
        if text is not None:
            path.write_text(text)
        with pytest.raises(UsageError):
            sign(public, path, chain={})
    sign(public, private, chain={})
    with pytest.raises(EdgesegError, match="not a public key"):
        check_signature(public, [private])


def test_commands(model, tmp_path):
    key = tmp_path / "owner.key"
    assert succeed("keygen", key).stderr.startswith(f"wrote {key} (keep it secret) and ")
    public = key.with_suffix(".pub")
    assert fail("threshold", model, "--trust", public, code=1).startswith(f"{model}: not signed")
    succeed("sign", model, "--key", key)
    shown = succeed("verify-signature", model, "--trust", public).stdout
    assert shown.startswith(f"{model}: signed by ")
    facts = json.loads(succeed("verify-signature", model, "--trust", public, "--json").stdout)
    signature = read_signature(model)
    assert signature is not None
    assert facts[str(model)]["key"] == signature.statement.key
    assert fail("verify-signature", model, code=2).startswith("--trust: expected at least one")


def test_a_new_threshold_asks_for_a_new_signature(tmp_path):
    model, key = tmp_path / "m.onnx", tmp_path / "owner.key"
    scores = np.linspace(100.0, 199.0, 100, dtype=np.float32)
    metadata = replace(
        brightness_metadata(threshold=199.0), good_scores=ScoreStatistics.of(scores, scores)
    )
    write_brightness_model(model, metadata=metadata)
    succeed("keygen", key)
    succeed("sign", model, "--key", key)
    said = succeed("threshold", model, "--rate", "0.2", "--trust", key.with_suffix(".pub")).stderr
    stale = f"the signature of {model} no longer fits; sign it again with `edgeseg sign {model}"
    assert stale in said
    assert json.loads(succeed("info", model, "--json").stdout)["signature"]["signed"] == "no longer"
    again = fail("threshold", model, "--trust", key.with_suffix(".pub"), code=1)
    assert again.startswith(f"{model}: {model.stem}.json was changed since it was signed;")
    succeed("sign", model, "--key", key)
    succeed("threshold", model, "--trust", key.with_suffix(".pub"))
    picture = tmp_path / "good" / "0.png"
    write_image(picture, np.full((64, 96, 3), 100, np.uint8))
    assert stale in succeed("calibrate", model, picture.parent, "--backend", "cpu").stderr


def test_info_tells_who_signed_a_model_or_its_recipe(model, keys, tmp_path):
    private, _ = keys
    assert signature_facts(model) == {"signed": "no"}
    sign(model, private, chain={})
    told, signature = signature_facts(model), read_signature(model)
    assert (told["signed"], told["key"]) == ("as it is", signature.statement.key)
    assert f"verify-signature {model}" in told["not held against a key"]
    model.write_bytes(b"another")
    assert "was changed since it was signed" in signature_facts(model)["why"]
    signature_path(model).unlink()
    sign(model.parent, private, chain={})
    assert signature_facts(model)["signed"] == "as it is"
    assert no_longer_fits(model).startswith(f"the signature of {model.parent} no longer fits")
