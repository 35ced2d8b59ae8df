"""How large a picture says it is, read from its first bytes before anything decodes it.

A few hundred bytes can ask for gigabytes of pixels. Every format that is decoded has its rule
here; what has none is not decoded.
"""

import re
import struct
from collections.abc import Callable

# By default: 300 MB decoded. Area cameras have up to 150 million, and say --max-pixels.
MAX_PIXELS = 100_000_000
_Size = tuple[int, int]  # height, width
JPEG = b"\xff\xd8\xff"
PNG = b"\x89PNG\r\n\x1a\n"
_FRAMES = {0xC0, 0xC1, 0xC2, 0xC3, 0xC5, 0xC6, 0xC7, 0xC9, 0xCA, 0xCB, 0xCD, 0xCE, 0xCF}
_MOST_TAGS = 4096  # of a TIFF directory
_WIDTH, _HEIGHT, _TILE_WIDTH, _TILE_HEIGHT = 256, 257, 322, 323
_PNM = re.compile(rb"P[1-6](?:\s|#[^\n]*\n)+(\d{1,9})(?:\s|#[^\n]*\n)+(\d{1,9})\s")


def picture_size(data: bytes) -> _Size | None:
    """Height and width by the header; None: of no kind that is known, or cut off before them."""
    for mark, measure in _KINDS.items():
        if data.startswith(mark):
            try:
                return measure(data)
            except (struct.error, IndexError):
                return None
    return None


def _jpeg(data: bytes) -> _Size | None:
    at = 2
    while at + 9 <= len(data) and data[at] == 0xFF:
        marker = data[at + 1]
        if marker in _FRAMES:
            height, width = struct.unpack_from(">HH", data, at + 5)
            return height, width
        at += 1 if marker == 0xFF else 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    return None


def _png(data: bytes) -> _Size | None:
    width, height = struct.unpack_from(">II", data, 16)
    return (height, width) if data[12:16] == b"IHDR" else None


def _bmp(data: bytes) -> _Size | None:
    (header,) = struct.unpack_from("<I", data, 14)
    if header == 12:  # of OS/2
        width, height = struct.unpack_from("<HH", data, 18)
    else:
        width, height = struct.unpack_from("<ii", data, 18)
    return abs(height), abs(width)  # rows from the top are a negative height


def _tiff(data: bytes) -> _Size | None:
    order = "<" if data[:1] == b"I" else ">"
    (version,) = struct.unpack_from(f"{order}H", data, 2)
    if version == 43:  # BigTIFF
        (start,) = struct.unpack_from(f"{order}Q", data, 8)
        (count,) = struct.unpack_from(f"{order}Q", data, start)
        first, step, value = start + 8, 20, 8
    else:
        (start,) = struct.unpack_from(f"{order}I", data, 4)
        (count,) = struct.unpack_from(f"{order}H", data, start)
        first, step, value = start + 2, 12, 4
    sides: dict[int, int] = {}
    for entry in range(min(count, _MOST_TAGS)):
        at = first + entry * step
        tag, kind = struct.unpack_from(f"{order}HH", data, at)
        if tag in (_WIDTH, _HEIGHT, _TILE_WIDTH, _TILE_HEIGHT):
            form = {3: "H", 4: "I", 16: "Q"}.get(kind, "I")
            (sides[tag],) = struct.unpack_from(f"{order}{form}", data, at + step - value)
    if _WIDTH not in sides or _HEIGHT not in sides:
        return None
    # A tile is decoded whole, however little of it the picture uses.
    return (
        max(sides[_HEIGHT], sides.get(_TILE_HEIGHT, 0)),
        max(sides[_WIDTH], sides.get(_TILE_WIDTH, 0)),
    )


def _webp(data: bytes) -> _Size | None:
    if data[8:12] != b"WEBP":
        return None
    kind = data[12:16]
    if kind == b"VP8X":
        return 1 + int.from_bytes(data[27:30], "little"), 1 + int.from_bytes(data[24:27], "little")
    if kind == b"VP8L":
        (bits,) = struct.unpack_from("<I", data, 21)
        return 1 + (bits >> 14 & 0x3FFF), 1 + (bits & 0x3FFF)
    width, height = struct.unpack_from("<HH", data, 26)
    return height & 0x3FFF, width & 0x3FFF


def _pnm(data: bytes) -> _Size | None:
    match = _PNM.match(data[:4096])
    return None if match is None else (int(match[2]), int(match[1]))


def _jp2(data: bytes) -> _Size | None:
    at = data.find(b"ihdr", 0, 4096)
    if at < 0:
        return None
    height, width = struct.unpack_from(">II", data, at + 4)
    start = data.find(b"\xff\x4f\xff\x51", 0, 65536)
    inside = None if start < 0 else _j2k(data[start:])
    return (height, width) if inside is None else (max(height, inside[0]), max(width, inside[1]))


def _j2k(data: bytes) -> _Size | None:
    """A bare codestream, whose corners are counted from an origin."""
    right, bottom, left, top = struct.unpack_from(">IIII", data, 8)
    return max(0, bottom - top), max(0, right - left)


_KINDS: dict[bytes, Callable[[bytes], _Size | None]] = {
    JPEG: _jpeg,
    PNG: _png,
    b"BM": _bmp,
    b"II*\0": _tiff,
    b"II+\0": _tiff,
    b"MM\0*": _tiff,
    b"MM\0+": _tiff,
    b"RIFF": _webp,
    **{b"P%d" % kind: _pnm for kind in (1, 2, 3, 4, 5, 6)},
    b"\0\0\0\x0cjP  ": _jp2,
    b"\xff\x4f\xff\x51": _j2k,
}
