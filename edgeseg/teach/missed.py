"""Missed defects that a model learns from: asked for, tried, and kept for every later fit.

missed.marked/KIND/001.png  what people marked on the page, until it is learned or taken back
missed.asked/KIND/001.png   what was given, as long as it is asked for; a mask or outline beside it
missed/KIND/001.png         what was learned; every fit of the project learns from all of it
"""

import glob
import hashlib
import shutil
from collections.abc import Sequence
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


def marked_folder(project: Project) -> Path:
    """Return the folder of what people marked, which waits."""
    return project.folder / "missed.marked"


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


def asked_defects(project: Project) -> tuple[Sample, ...]:
    """Return the missed defects to be learned next: those asked for, else those that wait."""
    return _samples(asked_folder(project)) or marked_defects(project)


def marked_defects(project: Project) -> tuple[Sample, ...]:
    """Return the missed defects that people marked and nobody learned yet."""
    return _samples(marked_folder(project))


def learned_defects(project: Project) -> tuple[Sample, ...]:
    """Return the missed defects that every fit learns from."""
    return _samples(missed_folder(project))


def name_of(missed: Sample) -> str:
    """Return the name of a missed defect in previews and the history: its kind and its file."""
    return f"{missed.kind}/{missed.image.name}"


def _samples(folder: Path) -> tuple[Sample, ...]:
    return read_known_defects(folder) if _pictures(folder) else ()


def _pictures(folder: Path) -> list[Path]:
    return pictures_below(folder) if folder.is_dir() else []


def basis_of_missed(project: Project) -> str:
    """Identify what was learned and what would be next, and where its defects are.

    Empty where there are no missed defects.
    """
    told = [
        f"{name_of(each)}:{'' if each.mask is None else file_sha256(each.mask)}"
        for each in asked_defects(project)
    ]
    told += [f"{path.parent.name}/{path.name}" for path in _pictures(missed_folder(project))]
    return hashlib.sha256(",".join(told).encode()).hexdigest()[:16] if told else ""


def take_in(project: Project, names: Sequence[str]) -> None:
    """Keep what is learned now, by its names; it may have been done in part."""
    for folder in (asked_folder(project), marked_folder(project)):
        for name in names:
            kept = missed_folder(project) / name
            for path in files_of(folder / name):
                kept.parent.mkdir(parents=True, exist_ok=True)
                path.replace(kept.parent / path.name)
    drop_asked(project)


def take_out(project: Project, names: Sequence[str]) -> None:
    """Move learned defects to removed/, where the fit no longer sees them."""
    for name in names:
        for path in files_of(missed_folder(project) / name):
            path.replace(project.pictures("removed") / path.name)


def files_of(picture: Path) -> list[Path]:
    """List a picture and the mask or outline beside it, as far as they are there."""
    beside = sorted(picture.parent.glob(f"{glob.escape(picture.stem)}[._]*"))
    return sorted(beside, key=lambda path: path != picture)
