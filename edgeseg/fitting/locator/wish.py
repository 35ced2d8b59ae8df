"""What a fit may be told of `locate`: a way to find parts, or to choose one."""

from edgeseg.base.errors import UsageError
from edgeseg.vision.anchor import check_locate, parse_anchor
from edgeseg.vision.blobs import EXPECTED, asks_for_several, parse_several

AUTO = "auto"
WITH_MARK = f"{AUTO},anchor:x,y,w,h"


def asks_to_choose(locate: str) -> bool:
    """Return whether a way is to be chosen: `auto`, or `auto,` and a mark."""
    return locate.partition(",")[0] == AUTO


def mark_of(locate: str) -> str:
    """Return the mark behind `auto,`; empty without one."""
    return locate.partition(",")[2]


def check_wish(text: str) -> None:
    """Refuse an unknown value of `locate` for a fit, which also takes `auto`."""
    try:
        if asks_for_several(text):
            parse_several(text)
        elif not asks_to_choose(text):
            check_locate(text)
        elif text != AUTO:
            parse_anchor(mark_of(text))
    except UsageError as error:
        raise UsageError(error, f"; {EXPECTED}; or {AUTO} or {WITH_MARK} to choose") from None
