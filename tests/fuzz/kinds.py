"""The kinds of files that are mutated: seeds, changes, how handlens reads one, and an independent judge of each accept.

A judge is a plain, strict decoder of `tests/oracles`, or another library's: it gives an empty text where the file is
sound and handlens read from it what it holds, or where the judge does not know such files.
"""

import csv
import io
import json
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from oracles import jpeg, npy, png, tiff
from oracles import submissions as oracle
from oracles.strict import DamagedError, UnsureError

from fuzz import mutators as change
from handlens import registry
from handlens.errors import HandlensError
from handlens.types import Case

SHAPE = (20, 30)
IDS = ("1", "01", "NA", "a b")
CELLS = {
    "forgery": [("authentic",), ("[1, 4, 9, 2];[100, 7]",), ("[600, 1]",), ("[3,1]",)],
    "ink": [("1 1",), ("5 3 9 2 100 30",), ("600 1",), ("1 600",)],
    "cells": [("",), ("5 3 9 2 100 30",), ("600 1",), ("1 600",)],
    "lesions": [
        ("1", *"000000000"),
        ("0.5", "0.25", "0.25", *"0000000"),
        ("1e-3", "0.999", *"00000000"),
        ("0.1",) * 10,
    ],
}
RULES = {
    "forgery": oracle.lists_are_valid,
    "ink": oracle.filled_pairs_are_valid,
    "cells": oracle.pairs_are_valid,
    "lesions": oracle.probabilities_are_valid,
}


class Refused(Exception):  # noqa: N818 - what handlens said about a file
    """The file was refused, with this message."""


@dataclass(frozen=True)
class Kind:
    """`read` takes the bytes and an empty folder; `wrong` says what is wrong about an accept.

    `sound` says of a refused file that it was sound, where the judge knows that for certain. `share` is this kind's part
    of a campaign: the quick ones have more.
    """

    seeds: Callable[[], list[bytes]]
    mutators: tuple[Callable[..., bytes], ...]
    read: Callable[[bytes, Path], Any]
    wrong: Callable[[bytes, Any], str]
    sound: Callable[[bytes], bool] = lambda _data: False
    share: int = 1


# --- tables -------------------------------------------------------------------------------------------------------


def _codec(name):
    challenge = registry.challenge(name)
    return challenge.codec(challenge.settings())


def csv_seed(name):
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(_codec(name).header)
    writer.writerows((id, *cells) for id, cells in zip(IDS, CELLS[name], strict=True))
    return stream.getvalue().encode()


def _read_table(name, ending, data, folder):
    from handlens.io.submissions import read_submission

    file = folder / f"submission{ending}"
    file.write_bytes(data)
    found = read_submission(file, _codec(name), [Case(id, folder, SHAPE) for id in IDS])
    if found.problems:
        raise Refused("\n".join(map(str, found.problems[:20])))
    return found.answers


def _is_valid_csv(name, data):
    return oracle.is_valid(data, _codec(name).header, dict.fromkeys(IDS, SHAPE), RULES[name])


def _wrong_csv(name, data, answers):
    if not _is_valid_csv(name, data):
        return "not a valid submission"
    return "" if set(answers) == set(IDS) else "answers are missing"


def _csv_kind(name):
    return Kind(
        lambda: [csv_seed(name)],
        (change.change_bytes, change.change_numerals, change.change_rows, change.change_quoting, change.change_letters),
        partial(_read_table, name, ".csv"),
        partial(_wrong_csv, name),
        partial(_is_valid_csv, name),
        share=10,
    )


def parquet_seeds():
    import pyarrow as pa
    import pyarrow.parquet as pq

    seeds = []
    for name, packing in (("cells", "NONE"), ("cells", "SNAPPY"), ("cells", "ZSTD")):
        rows = [(id, *cells) for id, cells in zip(IDS, CELLS[name], strict=True)]
        columns = dict(zip(_codec(name).header, map(list, zip(*rows, strict=True)), strict=True))
        stream = io.BytesIO()
        pq.write_table(
            pa.table(columns), stream, compression=packing, write_page_checksum=True, use_dictionary=packing == "ZSTD"
        )
        seeds.append(stream.getvalue())
    return seeds


def _wrong_parquet(data, answers):
    """Arrow once more, by its other road and with checksums; then the plain rules for every cell."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if data[:4] != b"PAR1":  # it was read as CSV
        return _wrong_csv("cells", data, answers)
    try:
        table = pq.read_table(pa.BufferReader(data), page_checksum_verification=True, use_threads=False)
        rows = list(zip(*(column.to_pylist() for column in table.columns), strict=True))
    except (pa.ArrowException, OSError, UnicodeDecodeError, ValueError) as error:
        return f"Arrow refuses it with checksums: {str(error)[:100]}"
    if tuple(table.column_names) != _codec("cells").header or {str(row[0]) for row in rows} != set(IDS):
        return "other columns or ids"
    texts = {str(row[0]): row[1] if isinstance(row[1], str) else repr(row[1]) for row in rows}
    if len(rows) != len(IDS) or not all(oracle.pairs_are_valid([text], SHAPE) for text in texts.values()):
        return "not a valid submission"
    for id, text in texts.items():
        numbers = [int(number) for number in text.split()]
        runs = answers[id]
        if [*runs.starts] != [start - 1 for start in numbers[0::2]] or [*runs.lengths] != numbers[1::2]:
            return f"other runs for {id}"
    return ""


# --- run-length cells ---------------------------------------------------------------------------------------------


def _read_runs(parse, data, _folder):
    try:
        return parse(data.decode("utf-8", "replace"), pixels=600)
    except ValueError as error:
        raise Refused(str(error)) from None


def _read_pairs(data, folder):
    from handlens.masks.rle import parse_pairs

    return _read_runs(parse_pairs, data, folder)


def _read_lists(data, folder):
    from handlens.masks.rle import parse_lists

    return _read_runs(parse_lists, data, folder)


def _wrong_pairs(data, runs):
    text = data.decode("utf-8", "replace")
    if not oracle.pairs_are_valid([text], SHAPE):
        return "not valid pairs"
    numbers = [int(number) for number in text.split()]
    right = [start - 1 for start in numbers[0::2]] == [*runs.starts] and numbers[1::2] == [*runs.lengths]
    return "" if right else "other runs"


def _wrong_lists(data, instances):
    text = data.decode("utf-8", "replace")
    if not oracle.lists_are_valid([text], SHAPE):
        return "not valid lists"
    numbers = [json.loads(piece) for piece in text.split(";")]
    found = [np.stack([runs.starts + 1, runs.lengths], axis=1).ravel().tolist() for runs in instances]
    return "" if found == numbers else "other runs"


# --- pictures -----------------------------------------------------------------------------------------------------


def _noise(*shape, kind=np.uint8):
    pixels = np.random.default_rng(sum(shape)).integers(0, np.iinfo(kind).max, shape, kind, endpoint=True)
    return pixels & kind(0xF8 if kind is np.uint8 else 0xFFF0)  # so that packing has something to do


def _pillow(array, form, **options):
    from PIL import Image

    stream = io.BytesIO()
    image = array if isinstance(array, Image.Image) else Image.fromarray(array)
    image.save(stream, form, **options)
    return stream.getvalue()


def png_seeds():
    from PIL import Image

    palette = Image.fromarray(_noise(7, 9)).convert("P")
    palette.putpalette(bytes(range(256)) * 3)
    pictures = (_noise(9, 8, 3), _noise(8, 7), _noise(6, 5, 4), _noise(5, 6, kind=np.uint16), palette)
    return [_pillow(picture, "PNG") for picture in pictures]


def _read_picture(ending, data, folder):
    from handlens.io.images import read_image

    file = folder / f"picture{ending}"
    file.write_bytes(data)
    return read_image(file)


def _same(decode, data, found):
    """What a strict decoder says against what was read."""
    try:
        expected = decode(data)
    except DamagedError as error:
        return f"damaged: {error}"
    except UnsureError:
        return ""
    if found.shape != expected.shape and expected.ndim == 3 and (expected == expected[:, :, :1]).all():
        expected = expected[:, :, 0]  # a palette of greys is grey
    if found.shape != expected.shape or found.dtype != expected.dtype or not np.array_equal(found, expected):
        return f"other pixels: {found.shape} {found.dtype}, expected {expected.shape} {expected.dtype}"
    return ""


def jpeg_seeds():
    smooth = np.add.outer(np.arange(16), np.arange(24)).astype(np.uint8) * 6
    return [
        _pillow(smooth, "JPEG", quality=60),
        _pillow(np.stack([smooth, smooth[::-1], smooth[:, ::-1]], axis=2), "JPEG", quality=75),
        _pillow(_noise(17, 19), "JPEG", quality=30),
        _pillow(smooth, "JPEG", quality=80, restart_marker_blocks=2),
    ]


def _wrong_jpeg(data, found):
    try:
        height, width, _ = jpeg.check(data)
    except DamagedError as error:
        return f"damaged: {error}"
    except UnsureError:
        return ""
    return "" if found.shape[:2] == (height, width) else f"{found.shape}, expected {height}x{width}"


def tiff_seeds():
    seeds = []
    for order in "<>":
        for array, meaning in ((_noise(8, 7), 1), (_noise(6, 5, 3), 2), (_noise(7, 6, kind=np.uint16), 1)):
            seeds += [_tiff(array, meaning, order, packing) for packing in (1, 8)]
    return seeds


def _tiff(array, meaning, order, packing):
    """A TIFF of strips of three rows, with no more tags than it needs."""
    bits, samples = 8 * array.itemsize, array.shape[2] if array.ndim == 3 else 1
    array = array.astype(array.dtype.newbyteorder(order))
    parts = [array[top : top + 3].tobytes() for top in range(0, len(array), 3)]
    parts = [zlib.compress(part) for part in parts] if packing == 8 else parts
    tags = {256: array.shape[1], 257: array.shape[0], 258: [bits] * samples, 259: packing, 262: meaning}
    tags |= {273: [0] * len(parts), 277: samples, 278: 3, 279: [len(part) for part in parts], 284: 1}
    lists = {code: value if isinstance(value, list) else [value] for code, value in tags.items()}
    tail = 8 + 2 + 12 * len(lists) + 4
    start = tail + sum(4 * len(values) for values in lists.values() if len(values) > 1)
    lists[273] = [start + sum(map(len, parts[:index])) for index in range(len(parts))]
    directory, more = struct.pack(order + "H", len(lists)), b""
    for code, values in sorted(lists.items()):
        if len(values) == 1:
            directory += struct.pack(order + "HHII", code, 4, 1, values[0])
        else:
            directory += struct.pack(order + "HHII", code, 4, len(values), tail + len(more))
            more += struct.pack(f"{order}{len(values)}I", *values)
    head = (b"II" if order == "<" else b"MM") + struct.pack(order + "HI", 42, 8)
    return b"".join([head, directory, b"\0\0\0\0", more, *parts])


# --- arrays and documents -----------------------------------------------------------------------------------------


def npy_seeds():
    seeds = []
    for array in (_noise(4, 5), np.asfortranarray(_noise(3, 4, 2)), _noise(6, kind=np.uint16), np.ones((2, 3), bool)):
        stream = io.BytesIO()
        np.save(stream, array)
        seeds.append(stream.getvalue())
    return seeds


def _read_npy(data, folder):
    from handlens.io.npy import read_npy

    file = folder / "array.npy"
    file.write_bytes(data)
    return read_npy(file)


def _wrong_npy(data, found):
    try:
        expected = npy.decode(data)
    except DamagedError as error:
        return f"damaged: {error}"
    same = found.shape == expected.shape and found.dtype == expected.dtype
    return "" if same and found.tobytes() == expected.tobytes() else "other numbers"


def pack_folder(files):
    return json.dumps({name: content.hex() for name, content in files.items()}).encode()


def unpack_folder(data):
    return {name: bytes.fromhex(content) for name, content in json.loads(data).items()}


def zarr_seeds():
    import google_crc32c

    volume = _noise(2, 4, 6, kind=np.uint16)
    v2 = {"zarr_format": 2, "shape": [2, 4, 6], "chunks": [2, 4, 3], "dtype": "<u2", "order": "C", "fill_value": 0}
    v2 |= {"filters": None, "compressor": {"id": "zlib", "level": 1}}
    halves = [np.ascontiguousarray(volume[:, :, side : side + 3]).tobytes() for side in (0, 3)]
    v3: dict[str, Any] = {"zarr_format": 3, "node_type": "array", "shape": [2, 4, 6], "data_type": "uint16"}
    v3 |= {"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2, 4, 3]}}, "fill_value": 0}
    v3 |= {"chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}}, "attributes": {}}
    v3 |= {"codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}]}
    checked = [half + google_crc32c.value(half).to_bytes(4, "little") for half in halves]
    return [
        pack_folder(
            {".zarray": json.dumps(v2).encode(), **{f"0.0.{i}": zlib.compress(half) for i, half in enumerate(halves)}}
        ),
        pack_folder(
            {
                ".zarray": json.dumps(v2 | {"compressor": None}).encode(),
                **{f"0.0.{index}": half for index, half in enumerate(halves)},
            }
        ),
        pack_folder(
            {"zarr.json": json.dumps(v3).encode(), **{f"c/0/0/{index}": half for index, half in enumerate(checked)}}
        ),
    ]


def change_folder(data, dice):
    """One file of a folder: its description more often than its chunks."""
    files = unpack_folder(data)
    name = next(iter(files)) if dice.random() < 0.6 else dice.choice(list(files))
    if name.endswith((".json", ".zarray")) and dice.random() < 0.8:
        files[name] = change.change_json(files[name], dice)
    elif dice.random() < 0.1:
        del files[name]
    else:
        files[name] = change.change_bytes(files[name], dice)
    return pack_folder(files)


def _read_zarr(data, folder):
    from handlens.io.volumes import open_stack

    place = folder / "volume.zarr"
    for name, content in unpack_folder(data).items():
        file = place / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    stack = open_stack(place)
    height, width = stack.shape
    if max(height, width, stack.depth) > 64:  # looked at in one corner only
        return stack.read_band(0, min(height, 64), 0, min(stack.depth, 4), right=min(width, 64))
    return stack.read_band(0, height, 0, stack.depth)


def _wrong_zarr(data, found):
    from oracles import zarr_arrays

    return _same(zarr_arrays.decode, unpack_folder(data), found)


def pdf_seeds():
    picture = zlib.compress(_noise(8, 6, 3).tobytes())
    photograph = _pillow(np.add.outer(np.arange(16), np.arange(24)).astype(np.uint8) * 6, "JPEG", quality=75)
    box = "/Type/XObject/Subtype/Image/ColorSpace"
    return [
        _pdf(b"1 0 0 rg 5 5 20 20 re f 0 0 1 RG 0 0 m 36 36 l S"),
        _pdf(
            b"q 30 0 0 30 3 3 cm /I Do Q",
            f"<<{box}/DeviceRGB/Width 6/Height 8/BitsPerComponent 8/Filter/FlateDecode/Length {len(picture)}>>",
            picture,
        ),
        _pdf(
            b"q 30 0 0 20 3 3 cm /I Do Q",
            f"<<{box}/DeviceGray/Width 24/Height 16/BitsPerComponent 8/Filter/DCTDecode/Length {len(photograph)}>>",
            photograph,
        ),
    ]


def _pdf(content, head="", body=b""):
    """A document of one small page, half an inch wide."""
    resources = "/XObject<</I 5 0 R>>" if head else ""
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        f"<</Type/Page/Parent 2 0 R/MediaBox[0 0 36 36]/Contents 4 0 R/Resources<<{resources}>>>>".encode(),
        b"<</Length %d>>stream\n%s\nendstream" % (len(content), content),
    ]
    objects += [head.encode() + b"stream\n" + body + b"\nendstream"] if head else []
    text, places = b"%PDF-1.4\n", []
    for number, item in enumerate(objects, 1):
        places.append(len(text))
        text += b"%d 0 obj\n%s\nendobj\n" % (number, item)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    tail = b"trailer<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, len(text))
    return text + b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1) + table + tail


PDF_WORDS = (b"/Type", b"/Page", b"/Pages", b"/Kids", b"/Count", b"/MediaBox", b"/Length", b"/Filter", b"/FlateDecode", b"/DCTDecode", b"/JPXDecode", b"/LZWDecode", b"/ASCII85Decode", b"/Width", b"/Height", b"/ColorSpace", b"/DeviceRGB", b"/DeviceGray", b"/DeviceCMYK", b"/SMask", b"1 0 R", b"2 0 R", b"3 0 R", b"5 0 R", b"<<", b">>", b"[", b"]", b"obj", b"endobj", b"stream", b"endstream", b"xref", b"trailer", b"startxref", b"re", b"Do", b"cm")  # fmt: skip


def _read_pdf(data, folder):
    from handlens.io import pdf

    file = folder / "paper.pdf"
    file.write_bytes(data)
    with pdf.opened(file.read_bytes()) as document:
        pages, masked = len(document), pdf.has_masks(data)
        for page in range(min(pages, 20), 0, -1):  # one that is counted and not there is refused, as in an inspection
            figures = pdf.list_figures(document, page) or [pdf.whole_page(document, page)]
            picture = pdf.read_figure(document, figures[0], masked=masked)
        return pages, picture


def _wrong_pdf(data, found):
    """qpdf without repairs: where it finds the document sound, no page may be passed over.

    It counts less where a page is named by another generation of its object; viewers show it, and so do we.
    """
    import pikepdf

    pages, picture = found
    if picture.dtype != np.uint8 or picture.ndim not in (2, 3) or 0 in picture.shape:
        return f"a page of {picture.shape} {picture.dtype}"
    try:
        with pikepdf.open(io.BytesIO(data), attempt_recovery=False) as document:
            count = len(document.pages)
            sound = not document.get_warnings()
    except Exception:  # it has no opinion on damaged ones
        return ""
    return "" if count <= pages or not sound else f"{pages} pages, qpdf finds {count}"


def onnx_seeds():
    import hostile_models as models

    made = (models.honest(), models.nested(2), models.many_functions(levels=2, calls=2), models.external_data())
    return [model.SerializeToString() for model in made]


ONNX_WORDS = (b"Softmax", b"RandomUniform", b"RandomNormalLike", b"Bernoulli", b"Multinomial", b"Dropout", b"Identity", b"If", b"Loop", b"bomb", b"ai.onnx", b"com.microsoft", b"location", b"\x70\x01", b"\x3a\x00", b"\x0a\x00", b"\x2a\x00", b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01")  # fmt: skip


def change_message(data, dice):
    """A message's length grows or shrinks with what is put into it, as far as the first two levels go."""
    spans, place = [], 0
    while place + 2 < len(data):
        end = place + 2
        tag, size = data[place], data[place + 1]
        if tag & 7 == 2:
            if size & 0x80:
                size, end = size & 0x7F | data[place + 2] << 7, place + 3
            spans.append((place, end, min(len(data), end + size)))
        elif tag & 7:
            break
        place = end + (size if tag & 7 == 2 else 0)
    if not spans:
        return change.change_bytes(data, dice)
    place, start, end = dice.choice(spans)
    inner = data[start:end]
    inner = change_message(inner, dice) if len(inner) > 8 and dice.random() < 0.7 else change.change_bytes(inner, dice)
    size = len(inner)
    varint = b""
    while size > 0x7F:
        varint, size = varint + bytes([size & 0x7F | 0x80]), size >> 7
    return data[: place + 1] + varint + bytes([size]) + inner + data[end:]


def _read_onnx(data, _folder):
    from handlens.sandbox import onnxfile

    onnxfile.check(data)


def _wrong_onnx(data, _found):
    from oracles import onnx_files

    return onnx_files.danger(data)


_TEXT = (change.change_bytes, change.change_numerals, change.change_letters)

KINDS: dict[str, Kind] = {
    **{f"csv {name}": _csv_kind(name) for name in RULES},
    "pairs": Kind(
        lambda: [b"5 3 9 2 100 30", b"1 600", b""],
        _TEXT,
        _read_pairs,
        _wrong_pairs,
        lambda data: oracle.pairs_are_valid([data.decode("utf-8", "replace")], SHAPE),
        share=20,
    ),
    "lists": Kind(
        lambda: [b"[1, 4, 9, 2];[100, 7]", b"[600,1]"],
        _TEXT,
        _read_lists,
        _wrong_lists,
        share=20,
    ),
    "parquet": Kind(
        parquet_seeds, (change.change_bytes, change.change_footer), partial(_read_table, "cells", ".parquet"), _wrong_parquet, share=4
    ),
    "png": Kind(
        png_seeds, (change.change_bytes, change.change_png), partial(_read_picture, ".png"), partial(_same, png.decode), share=10
    ),
    "jpeg": Kind(
        jpeg_seeds, (change.change_bytes, change.change_jpeg), partial(_read_picture, ".jpg"), _wrong_jpeg, share=10
    ),
    "tiff": Kind(
        tiff_seeds, (change.change_bytes, change.change_tiff), partial(_read_picture, ".tif"), partial(_same, tiff.decode), share=5
    ),
    "npy": Kind(npy_seeds, (change.change_bytes, change.change_numerals), _read_npy, _wrong_npy, share=10),
    "zarr": Kind(zarr_seeds, (change_folder,), _read_zarr, _wrong_zarr, share=1),
    "pdf": Kind(
        pdf_seeds,
        (change.change_bytes, change.change_numerals, change.change_words(PDF_WORDS)),
        _read_pdf,
        _wrong_pdf,
        share=2,
    ),
    "onnx": Kind(
        onnx_seeds,
        (change.change_bytes, change.change_words(ONNX_WORDS), change_message),
        _read_onnx,
        _wrong_onnx,
        share=10,
    ),
}  # fmt: skip
"""All of them, by name."""

REFUSALS = (Refused, HandlensError)
