"""Ed25519 signatures beside files, by keys that the owner trusts.

    part.onnx, part.json --SHA-256 each--> statement --private key--> part.onnx.sig
    a recipe's folder    --SHA-256 each--> statement --private key--> folder/edgeseg.sig

A hash (seal.py) notices damage; a signature also notices people. All files that decide are named in
it, and none may be added, changed or missing. So is the name under which they may be used, and a
version that only grows: see runtime/backends/ran_versions.py.
"""

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from edgeseg.base.errors import RuntimeFailure, UsageError
from edgeseg.base.files import write_json
from edgeseg.base.messages import Setting
from edgeseg.base.plain import Malformed, parse_object, read_bounded, record
from edgeseg.base.progress import Note
from edgeseg.base.utc import utc_time
from edgeseg.modelfile.file_reading import DISK, Files
from edgeseg.modelfile.signed_files import OF_FOLDER, SignedFiles, measure_file, own_name, walk
from edgeseg.modelfile.signing_keys import fingerprint, fits, private_key, public_key

SCHEMA = 2
RECIPE = "recipe.toml"  # what makes a folder a recipe
LARGEST_VERSION = 2**53  # what JSON of every program holds
_CONTEXT = b"edgeseg signature 2\n"  # no signature of ours is one of anything else


@dataclass(frozen=True, kw_only=True)
class Statement:
    """The statement that is signed."""

    name: str  # of the file or folder: as another it is not signed
    version: int  # grows with every signature; a device refuses one below what it ran
    files: dict[str, str]  # SHA-256 by name, beside or below the signature
    sizes: dict[str, int]  # bytes of the same files: nothing is read further
    chain: dict[str, str] = field(default_factory=dict)  # hashes of what the model was made from
    when: str
    key: str  # fingerprint of the public key
    schema: int = SCHEMA

    def __post_init__(self) -> None:
        if not 1 <= self.version <= LARGEST_VERSION:
            raise UsageError(Setting("version", self.version), f": expected 1 to {LARGEST_VERSION}")
        if self.files.keys() != self.sizes.keys():
            raise UsageError("files and sizes of other names, expected the same")

    def message(self) -> bytes:
        """Return the bytes under the signature; the same statement gives the same bytes."""
        return _CONTEXT + json.dumps(asdict(self), sort_keys=True).encode()

    def sha256(self) -> str:
        """Hash all that decides: files, name and version."""
        return hashlib.sha256(self.message()).hexdigest()


@dataclass(frozen=True, kw_only=True)
class Signature:
    """A statement with its signature, as it is stored."""

    statement: Statement
    signature: str  # base64


class TrustedFiles(SignedFiles):
    """Files that a trusted key has signed, with their statement."""

    def __init__(self, path: Path, statement: Statement) -> None:
        super().__init__(path, hashes=statement.files, sizes=statement.sizes)
        self.statement = statement


def signature_path(path: Path) -> Path:
    """Return the path of the signature of a file or a folder."""
    return path / OF_FOLDER if path.is_dir() else path.with_name(f"{path.name}.sig")


def sign(path: Path, key: Path, *, chain: Mapping[str, str], version: int | None = None) -> Path:
    """Sign a file with what belongs to it, or all files of a folder.

    The version is one above the last one signed here, unless it is given.
    """
    private = private_key(key)
    found = {name: measure_file(each) for name, each in walk(path)}
    statement = Statement(
        name=own_name(path),
        version=_next_version(path) if version is None else version,
        files={name: digest for name, (digest, _) in found.items()},
        sizes={name: size for name, (_, size) in found.items()},
        chain=dict(chain),
        when=utc_time(),
        key=fingerprint(private.public_key()),
    )
    signed = base64.b64encode(private.sign(statement.message())).decode()
    target = signature_path(path)
    write_json(target, asdict(Signature(statement=statement, signature=signed)))
    return target


def _next_version(path: Path) -> int:
    try:
        before = read_signature(path)
    except RuntimeFailure:  # one that is damaged, or without a version
        before = None
    return 1 if before is None else before.statement.version + 1


def read_signature(path: Path) -> Signature | None:
    """Read the signature beside a file or in a folder, without checking it."""
    target = signature_path(path)
    if not target.is_file():
        return None
    try:
        values = parse_object(read_bounded(target))
        told = values.get("statement")
        schema = told.get("schema") if isinstance(told, dict) else None
        if schema != SCHEMA:
            raise Malformed(f"schema {schema!r}, expected {SCHEMA}")
        signature = record(Signature, values)
    except Malformed as error:
        raise RuntimeFailure(f"{target}: not a signature ({error}); sign it again") from None
    return signature


def no_longer_fits(path: Path) -> str | None:
    """Return what to tell a user who has just changed a signed file; None if it is not signed."""
    for signed in (path, path.parent):
        if signature_path(signed).is_file():
            return (
                f"the signature of {signed} no longer fits; sign it again with `edgeseg sign "
                f"{signed} --key KEY`"
            )
    return None


def note_stale(path: Path, note: Note) -> None:
    """Note that a file which was just written has a signature of its earlier content."""
    if stale := no_longer_fits(path):
        note(stale)


def signature_facts(path: Path) -> dict[str, str]:
    """Describe for people who signed a file or its recipe, and whether it has changed since."""
    for signed in (path, path.parent):
        try:
            signature = read_signature(signed)
            if signature is None:
                continue
            told = signature.statement
            _check_name(signed, told, own_name(signed))
            TrustedFiles(signed, told).check()
        except RuntimeFailure as error:
            return {"signed": "no longer", "why": str(error)}
        proof = f"edgeseg verify-signature {signed} --trust KEY"
        return {
            "signed": "as it is",
            "version": str(told.version),
            "key": told.key,
            "when": told.when,
            "not held against a key": f"try: {proof}",
        }
    return {"signed": "no"}


def admit(path: Path, trusted: Sequence[Path]) -> None:
    """Refuse what no trusted key has signed, before anything reads it; without keys admit all.

    This is for commands whose work has to be signed again. A model that inspects is read by
    `files_of_model`.
    """
    if trusted:
        check_trusted(path, trusted)


def trusted_files(path: Path, trusted: Sequence[Path]) -> TrustedFiles:
    """Return the files that a trusted key has signed, after comparing them with the signature."""
    files = TrustedFiles(path, trusted_statement(path, trusted))
    files.check()
    return files


def files_of_model(model: Path, trusted: Sequence[Path]) -> Files:
    """Return the files to read a model from; in a recipe's folder all files are checked.

    Without keys they are read as they lie on the disk.
    """
    return trusted_files(_signed_path(model), trusted) if trusted else DISK


def check_signature(path: Path, trusted: Sequence[Path]) -> Statement:
    """Check a file or folder against keys and signature, and return what is signed."""
    return trusted_files(path, trusted).statement


def check_trusted(model: Path, trusted: Sequence[Path]) -> Statement:
    """Check a model against its signature; in a recipe's folder, all files in it."""
    return check_signature(_signed_path(model), trusted)


def _signed_path(model: Path) -> Path:
    return model.parent if (model.parent / RECIPE).is_file() else model


def trusted_statement(path: Path, trusted: Sequence[Path], *, name: str | None = None) -> Statement:
    """Return what a trusted key has signed, without comparing it with the files.

    A copy that lies elsewhere is checked against its original name.
    """
    if not path.exists():
        raise UsageError(f"{path}: no such file or folder; expected a model or a recipe's folder")
    signature = read_signature(path)
    if signature is None:
        raise RuntimeFailure(
            f"{path}: not signed, and only files of a trusted key may be used here; sign it with "
            f"`edgeseg sign {path} --key KEY`"
        )
    statement = signature.statement
    keys = dict(map(public_key, trusted))
    if statement.key not in keys:
        raise RuntimeFailure(
            f"{path}: signed by {statement.key}, and trusted are {', '.join(sorted(keys))}; sign "
            "it with a trusted key"
        )
    if not fits(keys[statement.key], signature.signature, statement.message()):
        raise RuntimeFailure(f"{path}: its signature is forged or damaged; sign it again")
    _check_name(path, statement, own_name(path) if name is None else name)
    return statement


def _check_name(path: Path, statement: Statement, name: str) -> None:
    if statement.name != name:
        raise RuntimeFailure(
            f"{path}: signed as {statement.name}, and here it is called {name}; give it its name "
            f"back, or sign it again with `edgeseg sign {path} --key KEY`"
        )
