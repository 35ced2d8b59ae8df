"""Bytes of picture files, whole and odd ones."""

import struct
import zlib

import cv2
import numpy as np


def encode(suffix: str, pixels: np.ndarray) -> bytes:
    """OpenCV's own file of BGR or grey pixels, of any depth."""
    ok, data = cv2.imencode(suffix, pixels)
    assert ok
    return data.tobytes()


def png_chunk(kind: bytes, body: bytes) -> bytes:
    """One chunk with its length and its checksum."""
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def exif(orientation: int) -> bytes:
    """The block by which a camera says how it was held."""
    entry = struct.pack("<HHIHH", 0x0112, 3, 1, orientation, 0)
    return b"II*\0" + struct.pack("<I", 8) + struct.pack("<H", 1) + entry + struct.pack("<I", 0)


def jpeg_with_exif(data: bytes, body: bytes) -> bytes:
    """A JPEG with that block in front of its pixels."""
    app1 = b"\xff\xe1" + struct.pack(">H", 8 + len(body)) + b"Exif\0\0" + body
    return data[:2] + app1 + data[2:]
