"""Missed defects that a model learns from: asked for, tried, and kept for every later fit.

missed.asked/KIND/001.png   what was given, as long as it is asked for; a mask or outline beside it
missed/KIND/001.png         what was learned; every fit of the project learns from all of it
"""

import hashlib
import shutil
from pathlib import Path

from edgeseg.base.errors import UsageError
from edgeseg.base.files import file_sha256
from edgeseg.base.messages import Message, Setting
from edgeseg.data.known_defects import read_known_defects
from edgeseg.data.samples import Sample
from edgeseg.teach.project import Project
from edgeseg.vision.images import pictures_below


def asked_folder(project: Project) -> Path:
    """Return the folder of what is asked for."""
    return project.folder / "missed.asked"


def missed_folder(project: Project) -> Path:
    """Return the folder of what was learned."""
    return project.folder / "missed"


def ask_for(project: Project, given: Path) -> tuple[str, ...]:
    """Copy new pictures of missed defects, with their masks, in place of what was asked before.

    Returns their names.
    """
    drop_asked(project)
    samples = read_known_defects(given)
    have = {file_sha256(path) for path in _pictures(missed_folder(project))}
    names = []
    for sample in samples:
        digest = file_sha256(sample.image)
        if digest in have:
            continue
        have.add(digest)
        names.append(_copy(sample, asked_folder(project) / sample.kind, digest))
    if not names:
        raise UsageError(Setting("missed", str(given)), Message("missed_known", n=len(samples)))
    return tuple(sorted(names))


def _copy(sample: Sample, folder: Path, digest: str) -> str:
    """Copy a picture and its mask under a name that no other has."""
    folder.mkdir(parents=True, exist_ok=True)
    stem = f"{sample.image.stem[:60]}-{digest[:8]}"
    shutil.copy2(sample.image, folder / f"{stem}{sample.image.suffix}")
    if sample.mask is not None:
        outline = sample.mask.suffix == ".json"
        name = f"{stem}.json" if outline else f"{stem}_mask{sample.mask.suffix}"
        shutil.copy2(sample.mask, folder / name)
    return f"{sample.kind}/{stem}{sample.image.suffix}"


def drop_asked(project: Project) -> None:
    """Forget what was asked for."""
    shutil.rmtree(asked_folder(project), ignore_errors=True)


def asked(project: Project) -> tuple[Sample, ...]:
    """Return the missed defects that are asked for."""
    return _samples(asked_folder(project))


def learned_defects(project: Project) -> tuple[Sample, ...]:
    """Return the missed defects that every fit learns from."""
    return _samples(missed_folder(project))


def _samples(folder: Path) -> tuple[Sample, ...]:
    return read_known_defects(folder) if _pictures(folder) else ()


def _pictures(folder: Path) -> list[Path]:
    return pictures_below(folder) if folder.is_dir() else []


def basis_of_asked(project: Project) -> str:
    """Identify what is asked for; empty: nothing."""
    names = [path.name for path in _pictures(asked_folder(project))]
    return hashlib.sha256(",".join(names).encode()).hexdigest()[:16] if names else ""


def take_in(project: Project) -> None:
    """Keep what was asked for, since it is learned; it may have been done in part."""
    source, target = asked_folder(project), missed_folder(project)
    for path in sorted(source.rglob("*")) if source.is_dir() else ():
        if path.is_file():
            kept = target / path.relative_to(source)
            kept.parent.mkdir(parents=True, exist_ok=True)
            path.replace(kept)
    drop_asked(project)


def take_out(project: Project, names: list[str]) -> None:
    """Move learned defects to removed/, where the fit no longer sees them."""
    for name in names:
        path = missed_folder(project) / name
        for each in path.parent.glob(f"{path.stem}[._]*") if path.parent.is_dir() else ():
            each.replace(project.pictures("removed") / each.name)
