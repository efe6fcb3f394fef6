"""TIFF, decoded plainly and strictly: one page of grey or colours in strips, as they are or deflated."""

import struct
import zlib

import numpy as np
from oracles.strict import UnsureError, demand, know

SIZES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 1, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8, 13: 4}
LETTERS = {1: "B", 3: "H", 4: "I"}
LAYOUT = (256, 257, 258, 259, 262, 273, 277, 278, 279, 284, 317)
ODD = (
    266,
    274,
    322,
    323,
    324,
    325,
    338,
    339,
    32997,
    330,
    254,
    255,
)  # fill order, orientation, tiles, alpha, floats ...


def decode(data):
    """(H, W) or (H, W, 3) uint8 or uint16."""
    mark = {b"II*\0": "<", b"MM\0*": ">"}.get(data[:4])
    know(mark is not None and len(data) > 8, "not a classic TIFF")
    (place,) = struct.unpack(mark + "I", data[4:8])
    tags = _directory(data, mark, place)
    know(not tags.keys() & set(ODD), "rare tags")
    one = {code: tags.get(code, [usual]) for code, usual in ((257, 0), (256, 0), (259, 1), (262, -1), (277, 1))}
    know(all(len(values) == 1 for values in one.values()), "several values for one number")
    height, width, packing, meaning, samples = (values[0] for values in one.values())
    bits = tags.get(258, [1])
    know(meaning in (1, 2) and samples == (1 if meaning == 1 else 3) and packing in (1, 8, 32946), "kind")
    know(set(bits) in ({8}, {16}) and len(bits) == samples and tags.get(284, [1]) == [1], "bits")
    predictor = tags.get(317, [1])
    know(predictor in ([1], [2]) and (packing != 1 or predictor == [1]), "predictor")
    know(0 < height <= 4096 and 0 < width <= 4096, "size")
    rows = min(tags.get(278, [height])[0], height)
    demand(rows > 0 and 273 in tags and 279 in tags, "strips")
    strips = -(-height // rows)
    demand(len(tags[273]) == len(tags[279]) == strips, "strips")
    stride = width * samples * bits[0] // 8
    parts = [
        _strip(data, offset, count, min(rows, height - index * rows) * stride, packing)
        for index, (offset, count) in enumerate(zip(tags[273], tags[279], strict=True))
    ]
    kind = np.dtype(np.uint8) if bits[0] == 8 else np.dtype(np.uint16).newbyteorder(mark)
    pixels = np.frombuffer(b"".join(parts), kind).reshape(height, width, samples).astype(kind.newbyteorder("="))
    pixels = pixels.cumsum(axis=1, dtype=pixels.dtype) if predictor == [2] else pixels
    return pixels[:, :, 0] if samples == 1 else pixels


def _directory(data, mark, place):
    demand(8 <= place <= len(data) - 2, "directory")
    (count,) = struct.unpack(mark + "H", data[place : place + 2])
    demand(count > 0 and place + 2 + 12 * count <= len(data), "directory")
    know(data[place + 2 + 12 * count : place + 6 + 12 * count] == b"\0\0\0\0", "another page")
    tags, last = {}, -1
    for index in range(count):
        start = place + 2 + 12 * index
        code, kind, number = struct.unpack(mark + "HHI", data[start : start + 8])
        know(code > last, "tags out of order")
        last = code
        if code not in LAYOUT and code not in ODD:
            know(code not in (270, 34377, 50838, 50839, 700, 34665, 34412), "notes of programs that mean more")
            continue
        demand(kind in LETTERS, f"tag {code} of type {kind}")
        demand(0 < number <= 4096, "numbers")
        size = SIZES[kind] * number
        if size > 4:
            (start,) = struct.unpack(mark + "I", data[start + 8 : start + 12])
        else:
            start += 8
        demand(start + size <= len(data), "values beyond the end")
        tags[code] = list(struct.unpack(f"{mark}{number}{LETTERS[kind]}", data[start : start + size]))
    if not {256, 257, 262} <= tags.keys():
        raise UnsureError("no size")
    return tags


def _strip(data, offset, count, size, packing):
    demand(offset > 0 and offset + count <= len(data), "strip beyond the end")
    content = data[offset : offset + count]
    if packing != 1:
        stream = zlib.decompressobj()
        try:
            content = stream.decompress(content, 10**7)
        except zlib.error:
            demand(False, "zlib")
        demand(stream.eof, "zlib stream is not whole")
    demand(len(content) >= size, "too few pixels")
    return content[:size]
