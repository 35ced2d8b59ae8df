"""Who stands behind a file: an Ed25519 signature beside it, by a key that the owner trusts.

    part.onnx, part.json --SHA-256 each--> statement --private key--> part.onnx.sig
    a recipe's folder    --SHA-256 each--> statement --private key--> folder/edgeseg.sig

A hash (seal.py) notices damage; a signature also notices people. All files that decide are named in
it, and none may be added, changed or missing. `cryptography` is needed only where it is used.
"""

import base64
import binascii
import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from edgeseg.contract.metadata import MODEL_SUFFIXES, announced_sidecar
from edgeseg.contract.plain import Malformed, parse_json, read_bounded, record
from edgeseg.errors import RuntimeFailure, UsageError
from edgeseg.files import file_sha256, write_json, write_text
from edgeseg.progress import Note

SCHEMA = 1
OF_FOLDER = "edgeseg.sig"
RECIPE = "recipe.toml"  # what makes a folder a recipe
_CONTEXT = b"edgeseg signature 1\n"  # no signature of ours is one of anything else
# What a station writes into a recipe by itself: what checks found, and models of before.
_UNSIGNED = ("checks", "versions")
_LARGEST_KEY = 10_000  # bytes of a key file


@dataclass(frozen=True, kw_only=True)
class Statement:
    """What is signed."""

    files: dict[str, str]  # SHA-256 by name, beside or below the signature
    chain: dict[str, str] = field(default_factory=dict)  # hashes of what the model was made from
    when: str
    key: str  # fingerprint of the public key
    schema: int = SCHEMA

    def message(self) -> bytes:
        """The bytes under the signature; the same statement, the same bytes."""
        return _CONTEXT + json.dumps(asdict(self), sort_keys=True).encode()


@dataclass(frozen=True, kw_only=True)
class Signature:
    """A statement with its signature, as it is stored."""

    statement: Statement
    signature: str  # base64


def signature_path(path: Path) -> Path:
    """Where the signature of a file or a folder is."""
    return path / OF_FOLDER if path.is_dir() else path.with_name(f"{path.name}.sig")


def make_keys(path: Path) -> tuple[Path, Path]:
    """A new private key, readable by its owner alone, and its public key beside it."""
    ed25519, serialization = _library()
    public = path.with_suffix(".pub")
    for target in (path, public):
        if target.exists():
            raise UsageError(f"{target}: exists already; a key is never replaced, choose a name")
    private = ed25519.Ed25519PrivateKey.generate()
    text = private.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o600)
    path.write_bytes(text)
    write_text(public, _public_text(private.public_key()))
    return path, public


def sign(path: Path, key: Path, *, chain: Mapping[str, str]) -> Path:
    """Sign a file with what belongs to it, or all files of a folder."""
    private = _private_key(key)
    statement = Statement(
        files=_hashes(path),
        chain=dict(chain),
        when=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        key=_fingerprint(private.public_key()),
    )
    signed = base64.b64encode(private.sign(statement.message())).decode()
    target = signature_path(path)
    write_json(target, asdict(Signature(statement=statement, signature=signed)))
    return target


def read_signature(path: Path) -> Signature | None:
    """The signature beside a file or in a folder, not compared with anything yet."""
    target = signature_path(path)
    if not target.is_file():
        return None
    try:
        signature = record(Signature, parse_json(read_bounded(target)))
        if signature.statement.schema != SCHEMA:
            raise Malformed(f"schema {signature.statement.schema}, expected {SCHEMA}")
    except Malformed as error:
        raise RuntimeFailure(f"{target}: not a signature ({error}); sign it again") from None
    return signature


def no_longer_fits(path: Path) -> str | None:
    """What to tell whoever has just changed a file; None: nobody has signed it."""
    for signed in (path, path.parent):
        if signature_path(signed).is_file():
            return (
                f"the signature of {signed} no longer fits; sign it again with `edgeseg sign "
                f"{signed} --key KEY`"
            )
    return None


def note_stale(path: Path, note: Note) -> None:
    """Say so of a file that was just written, if it was signed before."""
    if stale := no_longer_fits(path):
        note(stale)


def signature_facts(path: Path) -> dict[str, str]:
    """Who says to have signed a file or its recipe, and if it is still that file; for people."""
    for signed in (path, path.parent):
        try:
            signature = read_signature(signed)
            if signature is None:
                continue
            told = {"key": signature.statement.key, "when": signature.statement.when}
            _compare(signed, signature.statement)
        except RuntimeFailure as error:
            return {"signed": "no longer", "why": str(error)}
        proof = f"edgeseg verify-signature {signed} --trust KEY"
        return {"signed": "as it is", **told, "not held against a key": f"try: {proof}"}
    return {"signed": "no"}


def admit(path: Path, trusted: Sequence[Path]) -> None:
    """Refuse what no trusted key has signed, before anything reads it; no keys: all may be used."""
    if trusted:
        check_trusted(path, trusted)


def check_signature(path: Path, trusted: Sequence[Path]) -> Statement:
    """What is signed of a file or folder, after holding it against keys and files."""
    statement = vouched(path, trusted)
    _compare(path, statement)
    return statement


def vouched(path: Path, trusted: Sequence[Path]) -> Statement:
    """What a trusted key has signed of it, not compared with the files yet."""
    _check_there(path)
    signature = read_signature(path)
    if signature is None:
        raise RuntimeFailure(
            f"{path}: not signed, and only files of a trusted key may be used here; sign it with "
            f"`edgeseg sign {path} --key KEY`"
        )
    statement = signature.statement
    keys = {fingerprint: key for fingerprint, key in map(_public_key, trusted)}
    if statement.key not in keys:
        raise RuntimeFailure(
            f"{path}: signed by {statement.key}, and trusted are {', '.join(sorted(keys))}; sign "
            "it with a trusted key"
        )
    if not _fits(keys[statement.key], signature):
        raise RuntimeFailure(f"{path}: its signature is forged or damaged; sign it again")
    return statement


def check_trusted(model: Path, trusted: Sequence[Path]) -> Statement:
    """The same of a model; in a recipe's folder of all that is in it, since all of it decides."""
    in_recipe = (model.parent / RECIPE).is_file()
    return check_signature(model.parent if in_recipe else model, trusted)


def _compare(path: Path, statement: Statement) -> None:
    """Every file as it was signed, none more and none fewer."""
    found = _hashes(path)
    for name in sorted(found.keys() | statement.files.keys()):
        if found.get(name) != statement.files.get(name):
            how = "changed"
            if name not in found:
                how = "removed"
            elif name not in statement.files:
                how = "added"
            raise RuntimeFailure(
                f"{path}: {name} was {how} since it was signed; if that was meant, sign it again "
                f"with `edgeseg sign {path} --key KEY`"
            )


def _hashes(path: Path) -> dict[str, str]:
    if path.is_dir():
        parts = [
            each
            for each in sorted(path.rglob("*"))
            if each.is_file()
            and each != path / OF_FOLDER
            and each.relative_to(path).parts[0] not in _UNSIGNED
        ]
        return {each.relative_to(path).as_posix(): file_sha256(each) for each in parts}
    _check_there(path)
    beside = [path]
    if path.suffix in MODEL_SUFFIXES:
        # An announced sidecar decides, too, as long as a run that was killed has left one.
        data = path.with_name(f"{path.name}.data")
        beside += [path.with_suffix(".json"), announced_sidecar(path), data]
    return {each.name: file_sha256(each) for each in beside if each.is_file()}


def _check_there(path: Path) -> None:
    if not path.exists():
        raise UsageError(f"{path}: no such file or folder; expected a model or a recipe's folder")


def _library() -> tuple[Any, Any]:
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ModuleNotFoundError:
        raise RuntimeFailure(
            "signatures need the package cryptography, which is not installed; "
            "`pip install edgeseg[sign]`"
        ) from None
    return ed25519, serialization


def _read_key(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_LARGEST_KEY)
    except OSError as error:
        raise UsageError(f"{path}: no key can be read ({error.strerror})") from None


def _private_key(path: Path) -> Any:
    ed25519, serialization = _library()
    from cryptography.exceptions import UnsupportedAlgorithm

    try:
        key = serialization.load_pem_private_key(_read_key(path), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise UsageError(f"{path}: not a private key of `edgeseg keygen` ({error})") from None
    if not isinstance(key, ed25519.Ed25519PrivateKey):
        raise UsageError(f"{path}: a key of another kind, expected Ed25519 of `edgeseg keygen`")
    return key


def _public_key(path: Path) -> tuple[str, Any]:
    ed25519, serialization = _library()
    from cryptography.exceptions import UnsupportedAlgorithm

    try:
        key = serialization.load_pem_public_key(_read_key(path))
    except (ValueError, UnsupportedAlgorithm):
        raise UsageError(
            f"{path}: not a public key; expected the .pub file of `edgeseg keygen`"
        ) from None
    if not isinstance(key, ed25519.Ed25519PublicKey):
        raise UsageError(f"{path}: a key of another kind, expected Ed25519 of `edgeseg keygen`")
    return _fingerprint(key), key


def _public_text(key: Any) -> str:
    _, serialization = _library()
    text: bytes = key.public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return text.decode()


def _fingerprint(key: Any) -> str:
    """Of a public key, short enough to be read out."""
    _, serialization = _library()
    raw = key.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    return hashlib.sha256(raw).hexdigest()[:16]


def _fits(key: Any, signature: Signature) -> bool:
    from cryptography.exceptions import InvalidSignature

    try:
        raw = base64.b64decode(signature.signature, validate=True)
        key.verify(raw, signature.statement.message())
    except (InvalidSignature, binascii.Error, ValueError):
        return False
    return True
