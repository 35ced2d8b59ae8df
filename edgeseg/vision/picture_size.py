"""The size of a picture and the cost of decoding it, read from the file before it is decoded.

A few hundred bytes can ask for gigabytes of pixels, and a few kilobytes for minutes: every scan of
a progressive JPEG goes over all of its pixels again. Every format that is decoded has its rule
here; a format without one is not decoded.
"""

import re
import struct
from collections.abc import Callable
from dataclasses import dataclass

# Of 8 bits a channel. By default: 300 MB decoded. Area cameras have up to 150 million, and say
# --max-pixels.
MAX_PIXELS = 100_000_000
# Of a JPEG with as many pixels as it may have; encoders make up to a dozen. Fewer pixels, more
# scans: what counts is scans times pixels, at about 1 ns each.
MOST_SCANS = 20
_Size = tuple[int, int]  # height, width
JPEG = b"\xff\xd8\xff"
PNG = b"\x89PNG\r\n\x1a\n"
_FRAMES = {0xC0, 0xC1, 0xC2, 0xC3, 0xC5, 0xC6, 0xC7, 0xC9, 0xCA, 0xCB, 0xCD, 0xCE, 0xCF}
_PNG_CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}  # by the kind of colour
_MOST_TAGS = 4096  # of a TIFF directory
_WIDTH, _HEIGHT, _BITS, _TILE_WIDTH, _TILE_HEIGHT = 256, 257, 258, 322, 323
_GAP = rb"(?:\s|#[^\n]*\n)+"
# Pictures that are not decoded, by what stands at their beginning, or by the brand of their box.
_FOREIGN = {b"GIF8": "GIF", b"\xff\x0a": "JPEG XL", b"\0\0\0\x0cJXL ": "JPEG XL"}
_BRANDS = {b"avif": "AVIF", b"avis": "AVIF", b"hei": "HEIC", b"hev": "HEIC", b"mif1": "HEIC"}
_PNM = re.compile(rb"P[1-6]" + _GAP + rb"(\d{1,9})" + _GAP + rb"(\d{1,9})\s")
_PNM_HIGHEST = re.compile(rb"P[2356]" + (_GAP + rb"(\d{1,9})") * 3)


@dataclass(frozen=True, kw_only=True)
class PictureHeader:
    """The facts that a file's header states."""

    size_hw: tuple[int, int]
    bits: int = 8  # that its decoder keeps of a channel
    scans: int = 1  # of a JPEG: how often it goes over all pixels

    @property
    def counted_pixels(self) -> int:
        """The number of 8-bit pixels that take the same memory."""
        return self.size_hw[0] * self.size_hw[1] * max(1, -(-self.bits // 8))

    @property
    def scanned_pixels(self) -> int:
        """Pixels times scans, to which the time for decoding is proportional."""
        return self.size_hw[0] * self.size_hw[1] * self.scans


def picture_header(data: bytes) -> PictureHeader | None:
    """Read all that is known before decoding; None for an unknown format or a truncated header."""
    size_hw = picture_size(data)
    if size_hw is None:
        return None
    if data.startswith(JPEG):
        return PictureHeader(size_hw=size_hw, scans=_scans(data))
    return PictureHeader(size_hw=size_hw, bits=_bits(data))


def _scans(data: bytes) -> int:
    """Count starts of scans; entropy-coded bytes have none, and earlier segments are skipped."""
    at = 2
    while at + 4 <= len(data) and data[at] == 0xFF and data[at + 1] != 0xDA:
        at += 1 if data[at + 1] == 0xFF else 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    return max(1, data.count(b"\xff\xda", at))


def foreign_kind(data: bytes) -> str | None:
    """Return what a picture of a format that is not decoded is called; None if it is none."""
    if data[4:8] == b"ftyp":
        box = data[8 : max(16, min(int.from_bytes(data[:4], "big"), 256))]
        brands = [box[:4], *(box[at : at + 4] for at in range(8, len(box), 4))]
        kinds = [kind for mark, kind in _BRANDS.items() for each in brands if each.startswith(mark)]
        return kinds[0] if kinds else None
    return next((kind for mark, kind in _FOREIGN.items() if data.startswith(mark)), None)


def most_png_data(data: bytes) -> int:
    """Return the most bytes that a PNG's compressed pixels can take: a tenth above the raw size."""
    width, height, bits, kind = struct.unpack_from(">IIBB", data.ljust(26, b"\0"), 16)
    row = width * bits * _PNG_CHANNELS.get(kind, 4) // 8 + 2
    # Twice: interlaced rows are shorter, and chunks have borders.
    return int(4096 + 2 * height * row)


def _bits(data: bytes) -> int:
    """Return the bits of a channel once decoded: 8, 16, or more for what is refused later."""
    try:
        if data.startswith(PNG):
            return data[24]
        if data[:4] in (b"II*\0", b"II+\0", b"MM\0*", b"MM\0+"):
            return _tiff_tags(data).get(_BITS, 1)
    except (struct.error, IndexError):
        return 64  # unknown
    if data.startswith((b"\0\0\0\x0cjP  ", b"\xff\x4f\xff\x51")):
        return 32  # OpenJPEG keeps whole numbers, whatever the file has
    highest = _PNM_HIGHEST.match(data[:4096])
    return 16 if highest is not None and int(highest[3]) > 255 else 8


def picture_size(data: bytes) -> _Size | None:
    """Read height and width; None for an unknown format or a truncated header."""
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
    sides = _tiff_tags(data)
    if _WIDTH not in sides or _HEIGHT not in sides:
        return None
    # A tile is decoded whole, however little of it the picture uses.
    return (
        max(sides[_HEIGHT], sides.get(_TILE_HEIGHT, 0)),
        max(sides[_WIDTH], sides.get(_TILE_WIDTH, 0)),
    )


def _tiff_tags(data: bytes) -> dict[int, int]:
    """Read sides and bits of the first directory, the only one that is decoded."""
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
    found: dict[int, int] = {}
    for entry in range(min(count, _MOST_TAGS)):
        at = first + entry * step
        tag, kind = struct.unpack_from(f"{order}HH", data, at)
        place, word = at + step - value, "Q" if value == 8 else "I"
        if tag == _BITS:  # one number for each channel; several may not fit where one does
            (numbers,) = struct.unpack_from(f"{order}{word}", data, at + 4)
            if 2 * numbers > value:
                (place,) = struct.unpack_from(f"{order}{word}", data, place)
            (found[tag],) = struct.unpack_from(f"{order}H", data, place)
        elif tag in (_WIDTH, _HEIGHT, _TILE_WIDTH, _TILE_HEIGHT):
            form = {3: "H", 4: "I", 16: "Q"}.get(kind, "I")
            (found[tag],) = struct.unpack_from(f"{order}{form}", data, place)
    return found


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
    """Read a bare codestream, whose corners are counted from an origin."""
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
