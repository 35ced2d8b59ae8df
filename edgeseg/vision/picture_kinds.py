"""Grey or colour, and how many bits are used: facts of pictures, and a sentence where they mislead.

Both can look like a changed part: a grey picture differs from a colour one everywhere, and 12 bits
of a camera in a file of 16 bits are nearly black.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Colour = Literal["grey", "colour", "mixed"]
_LOOKED_AT = 256  # rows and columns of a picture: a camera's colours differ everywhere
_WORDS = (10, 12, 14)  # bits of cameras that are stored as 16
_OF_16 = 16


def is_grey(image_hwc: NDArray[np.uint8]) -> bool:
    """Return whether all channels of a picture are equal, as in a grey file."""
    down, right = (max(1, side // _LOOKED_AT) for side in image_hwc.shape[:2])
    some = image_hwc[::down, ::right]
    return bool((some[..., 0] == some[..., 1]).all() and (some[..., 1] == some[..., 2]).all())


def colour_of(*, grey: int, count: int) -> Colour:
    """Return whether `count` pictures, `grey` of them grey, are grey, in colour or mixed."""
    return "colour" if not grey else "grey" if grey == count else "mixed"


def colour_sentence(grey: bool, fitted: Colour | None) -> str | None:
    """Say that a picture is of another kind than those of the fit; None if it is of the same."""
    if fitted is None or fitted == "mixed" or grey == (fitted == "grey"):
        return None
    here, there = ("grey", "colour ones") if grey else ("in colour", "grey ones")
    return (
        f"the picture is {here}, and the model was fitted on {there}: good parts may look odd; set "
        "the camera as it was, or fit on its pictures"
    )


class PictureKinds:
    """Counts of the kinds of pictures."""

    def __init__(self) -> None:
        self.colours: Counter[bool] = Counter()  # by whether they are grey
        self.deep: Counter[int] = Counter()  # by the bits that pictures of 16 use

    def add(self, *, grey: bool, used_bits: int | None) -> None:
        """Count one picture; `used_bits` is None for one of 8 bits."""
        self.colours[grey] += 1
        if used_bits is not None:
            self.deep[used_bits] += 1

    def sentences(self, fitted: Colour | None = None) -> Iterator[str]:
        """Yield a sentence for each thing that misleads; `fitted` is what a model knows."""
        grey, count = self.colours[True], self.colours.total()
        if 0 < grey < count:
            yield (
                f"grey pictures among {count}: {grey}, the others are in colour; expected one "
                "kind, as the camera will give it"
            )
        elif count and (sentence := colour_sentence(grey == count, fitted)):
            yield sentence
        if self.deep and (used := max(self.deep)) <= _WORDS[-1]:
            bits = next(word for word in _WORDS if used <= word)
            yield (
                f"pictures of 16 bits, {self.deep.total()} of {count}, have no value of "
                f"{1 << bits} or more, as those of a camera of {bits} bits, and so are dark; scale "
                "them, here and where the model will run, for example: magick mogrify -evaluate "
                f"multiply {1 << (_OF_16 - bits)} *.png"
            )
