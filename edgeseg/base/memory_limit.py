"""The memory that is left to this process, and the errors that mean there is none."""

import errno
from pathlib import Path

try:
    import resource
except ModuleNotFoundError:  # Windows has no such limits
    resource = None  # type: ignore[assignment]

# What libraries say: torch, OpenCV, the loader of shared libraries, threads, C++.
_WORDS = (
    *("allocate memory", "not enough memory", "out of memory", "insufficient memory"),
    *("failed to map segment", "bad_alloc", "bad allocation", "start new thread"),
)
_VAGUE = "could not create a primitive"  # oneDNN, for want of memory or for another reason
_LITTLE = 1_000_000_000  # bytes: libraries of a fit are larger


def out_of_memory(error: BaseException) -> bool:
    """Return whether an error, or one that it was raised from, means that memory has run out."""
    if error.__cause__ is not None and out_of_memory(error.__cause__):
        return True  # a library that calls it a failure of its own
    if isinstance(error, MemoryError):
        return True
    if isinstance(error, OSError) and error.errno == errno.ENOMEM:
        return True
    text = str(error).lower()
    vague = isinstance(error, ImportError | SystemError) or _VAGUE in text
    if vague and _is_nearly_gone():
        return True  # half of a library was loaded, and it says what it likes
    foreign = isinstance(error, RuntimeError | ImportError | SystemError)
    return (foreign or type(error).__module__ == "cv2") and any(word in text for word in _WORDS)


def _is_nearly_gone() -> bool:
    left = address_space_left()
    return left is not None and left < _LITTLE


def address_space_left() -> int | None:
    """Return the bytes that `ulimit -v` still lets this process map; None without a limit."""
    if resource is None:
        return None
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return None
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    except (OSError, ValueError, IndexError):
        return limit
    return max(0, limit - pages * resource.getpagesize())
