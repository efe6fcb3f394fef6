"""PNG, decoded plainly and strictly: every critical chunk's checksum, the whole zlib stream, every row's filter."""

import struct
import zlib

import numpy as np
from oracles.strict import demand, know

SAMPLES = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
DEPTHS = {0: (1, 2, 4, 8, 16), 2: (8, 16), 3: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}
TURNING = (b"tRNS", b"eXIf", b"acTL")  # chunks that change what is shown


def decode(data):
    """(H, W) grey, (H, W, 3) or (H, W, 4) as stored, palettes looked up."""
    demand(data[:8] == b"\x89PNG\r\n\x1a\n", "signature")
    chunks = list(_chunks(data))
    names = [name for name, _ in chunks]
    demand(names[:1] == [b"IHDR"] and len(chunks[0][1]) == 13 and names.count(b"IHDR") == 1, "header")
    width, height, depth, colour, packing, filtering, interlace = struct.unpack(">IIBBBBB", chunks[0][1])
    demand(0 < width < 2**31 and 0 < height < 2**31 and depth in DEPTHS.get(colour, ()), "header")
    demand((packing, filtering) == (0, 0) and interlace in (0, 1), "methods")
    know(interlace == 0 and width * height < 10**6, "interlaced or large")
    places = [index for index, name in enumerate(names) if name == b"IDAT"]
    demand(places and places == list(range(places[0], places[-1] + 1)), "pixel chunks are not together")
    unknown = set(names) - {b"IHDR", b"PLTE", b"IDAT", b"IEND"}
    demand(all(name[0] & 0x20 for name in unknown), "unknown critical chunk")
    raw = _inflate(b"".join(content for name, content in chunks if name == b"IDAT"))
    stride = -(-width * depth * SAMPLES[colour] // 8)
    demand(len(raw) >= height * (stride + 1), "too few pixels")
    rows = _unfilter(raw, height, stride, max(1, depth * SAMPLES[colour] // 8))
    palette = next((content for name, content in chunks if name == b"PLTE"), b"")
    demand(colour != 3 or (palette and len(palette) % 3 == 0), "palette")
    know(not unknown & set(TURNING) and depth >= 8 and colour != 4, "transparency, orientation, few bits")
    pixels = rows.view(">u2").astype(np.uint16) if depth == 16 else rows
    pixels = pixels.reshape(height, width, SAMPLES[colour])
    if colour == 3:
        colours = np.frombuffer(palette, np.uint8).reshape(-1, 3)
        know(int(pixels.max()) < len(colours), "an index beyond the palette")
        pixels = colours[pixels[:, :, 0]]
    return pixels[:, :, 0] if pixels.shape[2] == 1 else pixels


def _chunks(data):
    place = 8
    while True:
        demand(place + 12 <= len(data), "no end")
        size, name = struct.unpack(">I4s", data[place : place + 8])
        demand(place + 12 + size <= len(data) and name.isalpha(), "chunk")
        content = data[place + 8 : place + 8 + size]
        if not name[0] & 0x20:  # a critical chunk
            demand(
                zlib.crc32(name + content) == int.from_bytes(data[place + 8 + size : place + 12 + size], "big"), "sum"
            )
        yield name, content
        if name == b"IEND":
            return
        place += 12 + size


def _inflate(packed):
    stream = zlib.decompressobj()
    try:
        raw = stream.decompress(packed, 10**7)
    except zlib.error:
        demand(False, "zlib")
    demand(stream.eof, "zlib stream is not whole")
    return raw


def _unfilter(raw, height, stride, step):
    before = bytearray(stride)
    rows = np.empty((height, stride), np.uint8)
    for number in range(height):
        start = number * (stride + 1)
        kind, row = raw[start], bytearray(raw[start + 1 : start + 1 + stride])
        demand(kind <= 4, "filter")
        for place in range(stride) if kind else ():
            left = row[place - step] if place >= step else 0
            corner = before[place - step] if place >= step else 0
            above = before[place]
            guess = (left, above, (left + above) // 2, _paeth(left, above, corner))[kind - 1]
            row[place] = (row[place] + guess) & 255
        rows[number] = row
        before = row
    return rows


def _paeth(left, above, corner):
    guess = left + above - corner
    distances = abs(guess - left), abs(guess - above), abs(guess - corner)
    return (left, above, corner)[distances.index(min(distances))]
