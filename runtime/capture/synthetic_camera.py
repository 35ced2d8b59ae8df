"""Use the scene generator as a camera, without hardware; each frame's name says what was drawn."""

import time
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from edgeseg.base.errors import UsageError
from edgeseg.base.messages import Setting
from edgeseg.runtime.capture.captures import Grab, Pace, Wait

_UNSEEN = 1_000_000_000  # scenes from here on are in no dataset that edgeseg writes


@dataclass(frozen=True, kw_only=True)
class SyntheticOptions:
    """The options behind `synthetic:`."""

    fps: float = 30.0  # 0: as fast as they can be drawn, and every one is scored
    defects: float = 0.1  # share of defective frames
    frames: int = 0  # 0: endless
    seed: int = 0
    height: int = 256
    width: int = 256

    def __post_init__(self) -> None:
        if not 0 <= self.defects <= 1:
            raise UsageError(f"synthetic: defects={self.defects}, expected a share between 0 and 1")
        for name in ("fps", "frames", "seed"):
            if getattr(self, name) < 0:
                raise UsageError(f"synthetic: {name}={getattr(self, name)}, expected 0 or more")
        if min(self.height, self.width) < 32:
            raise UsageError(
                f"synthetic: {self.width}x{self.height} pixels, expected at least 32x32"
            )

    @classmethod
    def parse(cls, text: str) -> "SyntheticOptions":
        """Read `synthetic:fps=30,defects=0.1`."""
        known = {item.name: item.type for item in fields(cls)}
        values: dict[str, float] = {}
        for part in filter(None, text.partition(":")[2].split(",")):
            key, _, value = part.partition("=")
            if key not in known:
                raise UsageError(
                    Setting("source", repr(text)), f": unknown {key!r}, expected {', '.join(known)}"
                )
            try:
                values[key] = float(value) if known[key] is float else int(value)
            except ValueError:
                raise UsageError(
                    Setting("source", repr(text)), f": {key}={value!r} is not a number"
                ) from None
        return cls(**values)  # type: ignore[arg-type]  # integers where int is declared


class SyntheticCamera:
    """A camera of good scenes and a share of defective ones, at a steady rate."""

    def __init__(self, options: SyntheticOptions, *, wait: Wait) -> None:
        from edgeseg.data.synthetic.scene import KINDS, SceneGenerator

        self.fps = options.fps
        self._options = options
        self._scene = SceneGenerator(size_hw=(options.height, options.width), seed=options.seed)
        self._kinds = KINDS
        self._random = np.random.default_rng(options.seed)
        self._pace = Pace(options.fps, wait=wait)
        self._index = 0

    def read(self) -> Grab | None:
        """Draw the next scene; a `defects` share of them is defective."""
        if self._options.frames and self._index >= self._options.frames:
            return None
        index, kind = self._index, "good"
        self._index += 1
        if self._random.random() < self._options.defects:
            kind = str(self._random.choice(self._kinds))
        image_hwc = self._draw(index, kind)
        if self._pace.ending():
            return None
        # Stamped when due, not when drawn: a camera's exposure ends when the frame is there.
        return Grab(image_hwc, "rgb", time.monotonic_ns(), time.time(), kind)

    def _draw(self, index: int, kind: str) -> NDArray[np.uint8]:
        if kind == "good":
            return self._scene.good(_UNSEEN + index)
        return self._scene.defective(_UNSEEN + index, kind)[0]

    def close(self) -> None:
        """Do nothing: nothing stays open."""
