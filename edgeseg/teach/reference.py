"""The picture that shapes are drawn on, where parts are followed.

A fit takes the part of one picture as the place from which shapes go with it. Its name stands with
the shapes, and it stays that picture when others come, are learned, or when it is removed itself.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

from edgeseg.base.errors import UsageError
from edgeseg.base.messages import Message
from edgeseg.teach.project import Kind, Project, ProjectSettings, RegionSettings, is_picture_name
from edgeseg.vision.blobs import asks_for_several
from edgeseg.vision.images import images_in
from edgeseg.vision.picture_size import picture_size

_PLACES: tuple[Kind, ...] = ("good", "removed")


def store_region(project: Project, region: RegionSettings) -> None:
    """Store a region with its picture: its own, that of the one before, or the first good one."""

    def with_region(settings: ProjectSettings) -> ProjectSettings:
        return replace(settings, region=_with_picture(project, region, settings.region))

    project.change(with_region)


def _with_picture(
    project: Project, region: RegionSettings, before: RegionSettings
) -> RegionSettings:
    if not region.locate:
        return replace(region, drawn_on="")
    names = [region.drawn_on, before.drawn_on]  # which has none where parts lay alike
    names = [name for name in names if _find(project, name) is not None]
    names += [path.name for path in images_in(project.pictures("good"))[:1]]
    return replace(region, drawn_on=next(filter(is_picture_name, names), ""))


def reference(project: Project) -> Path | None:
    """Path of the reference picture for a fit; None: the fit takes its first picture."""
    name = project.settings().region.drawn_on
    found = _find(project, name)
    if name and found is None:
        raise UsageError(Message("fit_no_reference", name=name))
    return found


def view(project: Project) -> dict[str, Any] | None:
    """Facts for a page: the newest good picture, and the "reference" that shapes are drawn on."""
    paths = images_in(project.pictures("good"))
    if not paths:
        return None
    newest = max(paths, key=lambda each: (each.stat().st_mtime, each.name))
    shown = _find(project, project.settings().region.drawn_on) or paths[0]
    return {
        **_picture_facts(newest),
        "reference": {**_picture_facts(shown), "kind": shown.parent.name},
    }


def smallest_is_seen(project: Project) -> Message | None:
    """Say whether a fit could see the smallest defect; None where nothing tells, or nobody asked.

    Of several parts in a picture only the fit knows how large they are.
    """
    from edgeseg.fitting.smallest import what_is_seen  # the station fits nothing

    settings, shown = project.settings(), view(project)
    smallest = settings.region.smallest
    if not smallest or shown is None or asks_for_several(settings.region.locate):
        return None
    width, height = shown["reference"]["size"]
    try:
        return what_is_seen(settings.config(), (height, width), smallest)
    except UsageError as error:
        return next(part for part in error.args if isinstance(part, Message))


def _find(project: Project, name: str) -> Path | None:
    paths = (project.pictures(kind) / name for kind in _PLACES if name)
    return next((path for path in paths if path.is_file() and not path.is_symlink()), None)


def _picture_facts(path: Path) -> dict[str, Any]:
    height, width = picture_size(path.read_bytes()) or (0, 0)
    return {"name": path.name, "size": [width, height]}
