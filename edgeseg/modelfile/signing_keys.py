"""The keys behind signatures: Ed25519, made by `edgeseg keygen`, kept as PEM files.

`cryptography` is needed only where they are used.
"""

import base64
import binascii
import hashlib
from pathlib import Path
from typing import Any

from edgeseg.base.errors import RuntimeFailure, UsageError
from edgeseg.base.files import write_text

_LARGEST_KEY = 10_000  # bytes of a key file


def make_keys(path: Path) -> tuple[Path, Path]:
    """Make a private key, readable by its owner alone, and its public key beside it."""
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


def private_key(path: Path) -> Any:
    """Read a private key, to sign with."""
    ed25519, serialization = _library()
    from cryptography.exceptions import UnsupportedAlgorithm

    try:
        key = serialization.load_pem_private_key(_read_key(path), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise UsageError(f"{path}: not a private key of `edgeseg keygen` ({error})") from None
    if not isinstance(key, ed25519.Ed25519PrivateKey):
        raise UsageError(f"{path}: a key of another kind, expected Ed25519 of `edgeseg keygen`")
    return key


def public_key(path: Path) -> tuple[str, Any]:
    """Read a public key, to check signatures; returns its fingerprint and the key."""
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
    return fingerprint(key), key


def fingerprint(key: Any) -> str:
    """Return the fingerprint of a public key, short enough to be read out."""
    _, serialization = _library()
    raw = key.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    return hashlib.sha256(raw).hexdigest()[:16]


def fits(key: Any, signature: str, message: bytes) -> bool:
    """Return whether a signature in base64 is the key's, of this message."""
    from cryptography.exceptions import InvalidSignature

    try:
        key.verify(base64.b64decode(signature, validate=True), message)
    except (InvalidSignature, binascii.Error, ValueError):
        return False
    return True


def _library() -> tuple[Any, Any]:
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ModuleNotFoundError:
        raise RuntimeFailure(
            "signatures need the package cryptography, which is not installed; "
            "`pip install 'edgeseg[sign]'`"
        ) from None
    return ed25519, serialization


def _read_key(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_LARGEST_KEY)
    except OSError as error:
        raise UsageError(f"{path}: no key can be read ({error.strerror})") from None


def _public_text(key: Any) -> str:
    _, serialization = _library()
    text: bytes = key.public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return text.decode()
