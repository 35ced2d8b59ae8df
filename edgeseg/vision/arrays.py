"""A .npy file, mapped and not read: the masks of one video exceed 100 MB."""

from pathlib import Path
from tokenize import TokenError
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgeseg.base.errors import DatasetError


def open_array(path: Path) -> NDArray[Any]:
    """Map an array of numbers or truth values, of any shape."""
    try:
        array: NDArray[Any] = np.lib.format.open_memmap(path, mode="r")
    except OSError as error:
        raise _unreadable(path, str(error.strerror)) from None
    except (
        ValueError,
        TypeError,
        ArithmeticError,
        SyntaxError,
        TokenError,
        RecursionError,
        MemoryError,
    ):
        # numpy reads the header as Python source, and says of a damaged one what Python says.
        raise _unreadable(path, "damaged or cut off") from None
    if array.dtype.kind not in "biuf":
        raise _unreadable(path, f"its values are {array.dtype}, expected numbers")
    return array


def _unreadable(path: Path, reason: str) -> DatasetError:
    return DatasetError(f"{path}: not a readable .npy array ({reason})")
