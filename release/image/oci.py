"""An OCI image archive from folders: the same files give the same bytes.

Layers are sorted, belong to root and carry one time. `manifest.json` beside the OCI layout lets
Docker before version 25 load the archive too.
"""

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_MEDIA = "application/vnd.oci.image"


@dataclass(frozen=True, kw_only=True)
class Blob:
    """A file of the archive, kept on disk until it is packed."""

    path: Path
    media_type: str
    digest: str
    size: int

    @property
    def descriptor(self) -> dict[str, Any]:
        """What a manifest says of it."""
        return {"mediaType": self.media_type, "digest": self.digest, "size": self.size}


@dataclass(frozen=True, kw_only=True)
class Layer:
    """Files that are laid over those of the layers before."""

    blob: Blob
    diff_id: str  # digest of the tar before it was packed
    unpacked: int
    comment: str


def write_layer(
    folder: Path, target: Path, *, epoch: int, comment: str, owners: Mapping[str, int]
) -> Layer:
    """Pack all of a folder. What `owners` does not name belongs to root."""
    digest = hashlib.sha256()
    # Without a name and a time in its header, and at a fixed level.
    with target.open("wb") as file, gzip.GzipFile("", "wb", 6, fileobj=file, mtime=0) as packed:
        tee = _Tee(packed, digest)
        with tarfile.open(fileobj=tee, mode="w|", format=tarfile.PAX_FORMAT) as tar:
            for path in sorted(folder.rglob("*")):
                name = path.relative_to(folder).as_posix()
                _add(tar, path, name, epoch=epoch, owner=owners.get(name, 0))
    return Layer(
        blob=_blob(target, f"{_MEDIA}.layer.v1.tar+gzip"),
        diff_id=f"sha256:{digest.hexdigest()}",
        unpacked=tee.size,
        comment=comment,
    )


def write_archive(
    target: Path,
    layers: list[Layer],
    *,
    config: dict[str, Any],
    architecture: str,
    tag: str,
    epoch: int,
    created: str,
) -> str:
    """Write the archive; returns the digest of the image's manifest."""
    history = [{"created": created, "created_by": layer.comment} for layer in layers]
    image = {
        "architecture": architecture,
        "os": "linux",
        "created": created,
        "config": config,
        "rootfs": {"type": "layers", "diff_ids": [layer.diff_id for layer in layers]},
        "history": history,
    } | ({"variant": "v8"} if architecture == "arm64" else {})
    image_blob = _json_blob(target, image, f"{_MEDIA}.config.v1+json")
    manifest = {
        "schemaVersion": 2,
        "mediaType": f"{_MEDIA}.manifest.v1+json",
        "config": image_blob.descriptor,
        "layers": [layer.blob.descriptor for layer in layers],
    }
    manifest_blob = _json_blob(target, manifest, f"{_MEDIA}.manifest.v1+json")
    entry = manifest_blob.descriptor | {
        "platform": {"architecture": architecture, "os": "linux"},
        "annotations": {"org.opencontainers.image.ref.name": tag},
    }
    index = {
        "schemaVersion": 2,
        "mediaType": f"{_MEDIA}.index.v1+json",
        "manifests": [entry],
    }
    legacy = {
        "Config": _place(image_blob),
        "RepoTags": [tag],
        "Layers": [_place(layer.blob) for layer in layers],
    }
    blobs = [image_blob, manifest_blob, *(layer.blob for layer in layers)]
    with tarfile.open(target, "w", format=tarfile.PAX_FORMAT) as tar:
        for blob in sorted(blobs, key=_place):
            _add(tar, blob.path, _place(blob), epoch=epoch)
        for name, record in (
            ("index.json", index),
            ("manifest.json", [legacy]),
            ("oci-layout", {"imageLayoutVersion": "1.0.0"}),
        ):
            data = _as_json(record)
            tar.addfile(_levelled(tarfile.TarInfo(name), epoch, len(data)), io.BytesIO(data))
    for blob in (image_blob, manifest_blob):
        blob.path.unlink()
    return manifest_blob.digest


class _Tee:
    """Hashes and counts what is written through it."""

    def __init__(self, file: gzip.GzipFile, digest: Any) -> None:
        self._file, self._digest, self.size = file, digest, 0

    def write(self, data: bytes) -> int:
        self._digest.update(data)
        self.size += len(data)
        return self._file.write(data)


def _add(tar: tarfile.TarFile, path: Path, name: str, *, epoch: int, owner: int = 0) -> None:
    entry = tar.gettarinfo(path, arcname=name)
    if entry.islnk():  # one inode twice is how this computer stores it, not what the image is
        entry = tarfile.TarInfo(name)
        entry.mode, entry.size = path.stat().st_mode & 0o7777, path.stat().st_size
    if entry.isreg():
        with path.open("rb") as file:
            tar.addfile(_levelled(entry, epoch, entry.size, owner), file)
    else:
        tar.addfile(_levelled(entry, epoch, 0, owner))


def _levelled(entry: tarfile.TarInfo, epoch: int, size: int, owner: int = 0) -> tarfile.TarInfo:
    entry.mtime, entry.size, entry.uname, entry.gname = epoch, size, "", ""
    entry.uid = entry.gid = owner
    if entry.issym():
        entry.mode = 0o777
    elif entry.isdir():
        entry.mode |= 0o555
    else:  # everyone may read, nobody but the owner may write
        entry.mode = 0o755 if entry.mode & 0o100 else 0o644
    return entry


def _blob(path: Path, media_type: str) -> Blob:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while part := file.read(1 << 20):
            digest.update(part)
    size = path.stat().st_size
    return Blob(path=path, media_type=media_type, digest=f"sha256:{digest.hexdigest()}", size=size)


def _json_blob(beside: Path, record: object, media_type: str) -> Blob:
    data = _as_json(record)
    path = beside.with_name(f"{beside.name}.{hashlib.sha256(data).hexdigest()[:16]}")
    path.write_bytes(data)
    return _blob(path, media_type)


def _as_json(record: object) -> bytes:
    return json.dumps(record, sort_keys=True, separators=(",", ":")).encode()


def _place(blob: Blob) -> str:
    return f"blobs/{blob.digest.replace(':', '/')}"
