"""Samples of the parts of pictures that show several: each part is one, pictures stay together.

pictures --PartSamples--> a sample for each part that can be judged
                          the pictures that are near-copies, as one number each
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from edgeseg.base.errors import DatasetError
from edgeseg.base.messages import Message
from edgeseg.base.progress import Steps, silent
from edgeseg.data.samples import Sample, read_picture
from edgeseg.vision.geometry import Geometry
from edgeseg.vision.group_by import GroupBy
from edgeseg.vision.part_groups import GreyCopies
from edgeseg.vision.picture_size import MAX_PIXELS


@dataclass(kw_only=True)
class PartSamples:
    """Finds the parts of pictures, and which pictures show the same parts again.

    Parts of a picture are no independent evidence: its score is the highest of theirs.
    """

    geometry: Geometry
    by: GroupBy = field(default_factory=GroupBy)
    max_pixels: int = MAX_PIXELS
    steps: Steps = field(default=silent)
    _places: dict[str, int] = field(default_factory=dict)  # of each picture, by its name
    _copies: GreyCopies = field(default_factory=GreyCopies)

    def of(self, samples: Sequence[Sample]) -> list[Sample]:
        """Return a sample for each part of these pictures.

        A picture without one, or that cannot be read, stays as it is: decoding it says why.
        """
        watched = self.steps(samples, length=len(samples), label=Message("work_finding"))
        return [part for sample in watched for part in self._parts(sample)]

    def groups(self, samples: Sequence[Sample]) -> dict[int, int]:
        """Return for the place of each sample a number of its picture, equal for near-copies."""
        if not samples:
            return {}
        numbers = self._copies.groups(list(self._places.values()))
        return {
            place: numbers[self._places[sample.name]]
            for place, sample in enumerate(samples)
            if sample.name in self._places
        }

    def _parts(self, sample: Sample) -> Iterator[Sample]:
        place = self._places.setdefault(sample.name, len(self._places))
        if self.by.knows:
            self._copies.told[place] = self.by.part(sample.image, place=place)
        try:
            image_hwc = read_picture(sample, max_pixels=self.max_pixels)
        except DatasetError:
            yield sample
            return
        if not self.by.knows:
            self._copies.add(place, image_hwc)
        several = self.geometry.several
        judged = () if several is None else several.find_parts(image_hwc).judged
        whole = [number for number, part in enumerate(judged) if part.found.ok]
        yield from (replace(sample, part_number=number) for number in whole)
        if not whole:
            yield sample
