"""Files for attachments, made by hand: the smallest ones that are what they say."""

from __future__ import annotations

import struct
import zlib


def png(width, height):
    """A PNG of black pixels."""
    rows = zlib.compress(b"\0" * (height * (3 * width + 1)))
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", rows), (b"IEND", b""))
    parts = (
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def jpeg(width, height):
    """The beginning of a JPEG, with a comment before its frame."""
    comment = b"\xff\xfe" + struct.pack(">H", 6) + b"\xff\xc0ab"
    return b"\xff\xd8" + comment + b"\xff\xff\xc2" + struct.pack(">HBHH", 8, 8, height, width) + b"\0" * 8


def gif(width, height):
    """The beginning of a GIF."""
    return b"GIF89a" + struct.pack("<HH", width, height) + b"\0" * 8


def webp(width, height, form="VP8X"):
    """The beginning of a WebP, in one of its three forms."""
    if form == "VP8X":
        body = b"\0" * 4 + (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    elif form == "VP8L":
        body = b"\x2f" + ((height - 1) << 14 | (width - 1)).to_bytes(4, "little")
    else:
        body = b"\0\0\0\x9d\x01\x2a" + struct.pack("<HH", width, height)
    return b"RIFF\0\0\0\0WEBP" + form.ljust(4).encode() + b"\0\0\0\0" + body + b"\0" * 8


def pdf(pages=1, size=0):
    """A PDF of so many pages that can be counted, or of so many bytes that cannot."""
    body = b"1 0 obj << /Type /Pages >> endobj\n" + b"<< /Type /Page /Parent 1 0 R >>\n" * pages
    return (b"%PDF-1.7\n" + (body if pages else b"")).ljust(size, b"x")
