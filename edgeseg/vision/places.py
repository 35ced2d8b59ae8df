"""The usual pose of good parts in their pictures, and how far from it a part may lie."""

import math
from dataclasses import dataclass

from edgeseg.base.errors import UsageError
from edgeseg.vision.pose import Pose, wrap_degrees


@dataclass(frozen=True, kw_only=True)
class Places:
    """The usual pose of good parts, how it scatters, and how far from it a part may lie."""

    x: float  # where the part's own point usually is, in pixels of the camera
    y: float
    degrees: float  # how far the usual part is turned against the picture places are named in
    spread_right: float  # standard deviations of single parts
    spread_down: float
    spread_degrees: float
    farthest: float  # pixels from the usual place: beyond it a part is out of place
    most_turned: float  # degrees from the usual angle, in the same way; 180: any
    count: int  # good images that this was learned from

    def __post_init__(self) -> None:
        if not (self.farthest > 0 and self.most_turned > 0):
            raise UsageError(
                f"places: up to {self.farthest} pixels and {self.most_turned} degrees, expected "
                "more than 0 of both; fit the model again"
            )

    def usual(self, home_xy: tuple[float, float]) -> Pose:
        """Return the pose where a part should be."""
        return Pose(x=self.x, y=self.y, degrees=self.degrees, home_xy=home_xy)

    def off(self, pose: Pose) -> tuple[float, float, float]:
        """Return how far right, down and turned a part is from the usual one."""
        return pose.x - self.x, pose.y - self.y, wrap_degrees(pose.degrees - self.degrees)

    def oddness(self, pose: Pose) -> float:
        """Return how far from its usual place a part is; above 1 it is out of place."""
        right, down, degrees = self.off(pose)
        return max(math.hypot(right, down) / self.farthest, abs(degrees) / self.most_turned)

    def reason(self, pose: Pose) -> str:
        """Say why a part is out of place."""
        right, down, degrees = self.off(pose)
        return (
            f"it lies {math.hypot(right, down):.0f} pixels and {abs(degrees):.0f} degrees from the "
            f"usual place, and good parts stay within {self.farthest:.0f} and "
            f"{self.most_turned:.0f}"
        )
