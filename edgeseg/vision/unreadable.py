"""Pictures that cannot be read, in one message however many they are."""

from collections.abc import Sequence

from edgeseg.base.errors import DatasetError, EdgesegError

_NAMED = 10  # the others are counted


def unreadable_error(
    faults: Sequence[EdgesegError | str], *, of: int, advice: Sequence[object] = ()
) -> DatasetError:
    """Return one error that names every fault; `advice` ends its sentence."""
    if len(faults) == 1:
        return DatasetError(faults[0], *advice)
    parts: list[object] = [f"{len(faults)} of {of} pictures cannot be read: "]
    for fault in faults[:_NAMED]:
        parts += [fault, "; "]
    if len(faults) > _NAMED:
        parts += [f"and {len(faults) - _NAMED} more", "; "]
    return DatasetError(*parts[:-1], *advice)
