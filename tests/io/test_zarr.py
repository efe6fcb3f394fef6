"""Zarr stacks: every layout gives the same voxels, absent chunks are empty, and damage names the chunk."""

from __future__ import annotations

import bz2
import gzip
import itertools
import json
import lzma
import os
import pickle
import struct
import subprocess
import sys
import tracemalloc
import zlib
from pathlib import Path
from typing import Any

import google_crc32c
import imagecodecs
import numpy as np
import pytest
import tifffile
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from stacks import make_volume, refusal

from handlens.challenges.ink import data
from handlens.errors import DataError
from handlens.io import volumes
from handlens.io.images import write_png
from handlens.io.volumes import chunks

PACKED = {
    None: bytes,
    "blosc": lambda content: imagecodecs.blosc_encode(content),
    "zstd": lambda content: imagecodecs.zstd_encode(content),
    "gzip": gzip.compress,
    "zlib": zlib.compress,
    "lz4": lambda content: imagecodecs.lz4_encode(content, header=True),
    "bz2": bz2.compress,
    "lzma": lzma.compress,
}
CHUNK = (4, 16, 32)


def chunks_of(volume: Any, chunk: tuple[int, ...] = CHUNK) -> Any:
    """Numbers and voxels of every chunk; those at the edge are filled up with zeros, as the format has it."""
    counts = [-(-length // side) for length, side in zip(volume.shape, chunk, strict=True)]
    full = np.pad(
        volume, [(0, count * side - length) for count, side, length in zip(counts, chunk, volume.shape, strict=True)]
    )
    for numbers in itertools.product(*map(range, counts)):
        place = tuple(slice(number * side, (number + 1) * side) for number, side in zip(numbers, chunk, strict=True))
        yield numbers, full[place]


def write_v2(
    folder: Path,
    volume: Any,
    *,
    packing: str | None = "zlib",
    order: str = "C",
    separator: str = ".",
    endian: str = "<",
) -> Path:
    folder.mkdir(parents=True)
    kind = f"{endian}u2" if volume.dtype == np.uint16 else "|u1"
    page = {"zarr_format": 2, "shape": volume.shape, "chunks": CHUNK, "dtype": kind, "order": order, "filters": None}
    page |= {"fill_value": 0, "compressor": {"id": packing} if packing else None, "dimension_separator": separator}
    (folder / ".zarray").write_text(json.dumps(page))
    for numbers, voxels in chunks_of(volume):
        path = folder / separator.join(map(str, numbers))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(PACKED[packing](voxels.astype(kind).tobytes(order=order)))
    return folder


def write_v3(
    folder: Path, volume: Any, *, packing: str | None = "gzip", shard: tuple[int, ...] | None = None, at: str = "end"
) -> Path:
    folder.mkdir(parents=True)
    inner: list[Any] = [{"name": "bytes", "configuration": {"endian": "little"}}]
    inner += [{"name": packing, "configuration": {}}] if packing else []
    checked = [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}]
    sharding = {"chunk_shape": CHUNK, "codecs": inner, "index_codecs": checked, "index_location": at}
    page = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": volume.shape,
        "data_type": str(volume.dtype),
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": shard or CHUNK}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": 0,
        "codecs": [{"name": "sharding_indexed", "configuration": sharding}] if shard else inner,
    }
    (folder / "zarr.json").write_text(json.dumps(page))
    for numbers, voxels in chunks_of(volume, shard or CHUNK):
        path = folder.joinpath("c", *map(str, numbers))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(_pack_shard(voxels, packing, at) if shard else PACKED[packing](voxels.tobytes()))
    return folder


def _pack_shard(voxels: Any, packing: str | None, at: str) -> bytes:
    parts = [PACKED[packing](part.tobytes()) if part.any() else None for _, part in chunks_of(voxels)]
    place = 16 * len(parts) + 4 if at == "start" else 0
    content, index = b"", []
    for part in parts:
        index.append((place + len(content), len(part)) if part is not None else (2**64 - 1, 2**64 - 1))
        content += part or b""
    head = np.array(index, "<u8").tobytes()
    head += struct.pack("<I", google_crc32c.value(head))
    return head + content if at == "start" else content + head


def group(folder: Path, *, modern: bool, axes: str = "zyx", path: str = "0") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    scales = {"multiscales": [{"axes": [{"name": name} for name in axes], "datasets": [{"path": path}, {"path": "1"}]}]}
    if modern:
        page = {"zarr_format": 3, "node_type": "group", "attributes": {"ome": scales}}
        (folder / "zarr.json").write_text(json.dumps(page))
    else:
        (folder / ".zgroup").write_text('{"zarr_format": 2}')
        (folder / ".zattrs").write_text(json.dumps(scales))


def check(folder: Path, volume: Any) -> None:
    stack = volumes.open_stack(folder)
    assert (stack.depth, *stack.shape) == volume.shape
    assert stack.dtype == volume.dtype
    for top, bottom, first, last, left, right in ((0, 50, 0, 7, 0, 61), (3, 17, 2, 5, 8, 60), (31, 33, 3, 5, 31, 33)):
        band = stack.read_band(top, bottom, first, last, left=left, right=right)
        np.testing.assert_array_equal(band, volume[first:last, top:bottom, left:right])


# --- what is read --------------------------------------------------------------------------------


@pytest.mark.parametrize("packing", PACKED)
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_format_2_with_every_packing(tmp_path: Path, packing: str | None, dtype: Any) -> None:
    check(write_v2(tmp_path / "a", make_volume(dtype=dtype), packing=packing), make_volume(dtype=dtype))


@pytest.mark.parametrize(("order", "separator", "endian"), list(itertools.product("CF", "./", "<>")))
def test_format_2_in_every_order(tmp_path: Path, order: str, separator: str, endian: str) -> None:
    check(write_v2(tmp_path / "a", make_volume(), order=order, separator=separator, endian=endian), make_volume())


@pytest.mark.parametrize("packing", [None, "blosc", "zstd", "gzip"])
@pytest.mark.parametrize(("shard", "at"), [(None, "end"), ((4, 32, 64), "end"), ((8, 16, 32), "start")])
def test_format_3_with_and_without_shards(tmp_path: Path, packing: str | None, shard: Any, at: str) -> None:
    volume = make_volume()
    volume[:4, 16:32, 32:] = 0  # one chunk of a shard is not stored
    check(write_v3(tmp_path / "a", volume, packing=packing, shard=shard, at=at), volume)


def test_axes_may_lie_in_another_order(tmp_path: Path) -> None:
    folder, volume = write_v3(tmp_path / "a", make_volume()), make_volume()
    page = json.loads((folder / "zarr.json").read_text())
    page["codecs"] = [{"name": "transpose", "configuration": {"order": [2, 0, 1]}}, *page["codecs"]]
    (folder / "zarr.json").write_text(json.dumps(page))
    for numbers, voxels in chunks_of(volume):
        content = np.ascontiguousarray(voxels.transpose(2, 0, 1)).tobytes()
        folder.joinpath("c", *map(str, numbers)).write_bytes(gzip.compress(content))
    check(folder, volume)


@pytest.mark.parametrize("modern", [True, False])
def test_the_finest_level_of_an_ome_group_is_read(tmp_path: Path, modern: bool) -> None:
    group(tmp_path / "a.zarr", modern=modern, path="fine/0")
    (write_v3 if modern else write_v2)(tmp_path / "a.zarr" / "fine" / "0", make_volume())
    check(tmp_path / "a.zarr", make_volume())
    check(tmp_path / "a", make_volume())  # the name without .zarr finds it too


def test_what_the_library_writes_is_read(tmp_path: Path) -> None:
    for number, (form, shards) in enumerate([(2, None), (3, None), (3, (4, 32, 64))]):
        options = {"chunks": CHUNK, "shards": shards, "zarr_format": form}
        zarr.create_array(tmp_path / str(number), data=make_volume(), **options)
        check(tmp_path / str(number), make_volume())


def test_a_chunk_that_is_not_stored_is_empty(tmp_path: Path) -> None:
    folder, volume = write_v2(tmp_path / "a", make_volume()), make_volume()
    (folder / "1.2.1").unlink()
    volume[4:8, 32:48, 32:64] = 0
    check(folder, volume)


def test_a_band_holds_one_chunk_at_a_time(tmp_path: Path) -> None:
    volume = np.zeros((8, 2000, 1000), np.uint16)
    stack = volumes.open_stack(write_v2(tmp_path / "a", volume))
    stack.read_band(0, 1, 0, 1)
    tracemalloc.start()
    stack.read_band(1000, 1008, 0, 2)
    assert tracemalloc.get_traced_memory()[1] < 5e5
    tracemalloc.stop()


def test_a_fragment_may_have_a_zarr_stack(tmp_path: Path) -> None:
    fragment = tmp_path / "test" / "a"
    write_v2(fragment / "surface_volume.zarr", make_volume())
    write_png(fragment / "mask.png", np.ones((50, 61), bool))
    assert data.survey(tmp_path).facts["test a"] == "7 slices of 50x61, uint16, mask.png"
    assert not data.survey(tmp_path).problems
    (case,) = data.read_cases(tmp_path, "test")
    assert case.shape == (50, 61)


# --- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"dtype": "<f4"}, "float32 voxels; expected uint8 or uint16"),
        ({"shape": [50, 61], "chunks": [16, 32]}, "expected slices, rows, columns"),
        ({"shape": [2, 7, 50, 61], "chunks": [1, 4, 16, 32]}, "must have length 1"),
        ({"chunks": [4, 0, 32]}, "expected slices, rows, columns"),
        ({"chunks": [4, 1 << 20, 1 << 20]}, "too large"),
        ({"shape": [7, 1 << 20, 1 << 20]}, "a slice has 1 to"),
        ({"compressor": {"id": "pcodec"}}, "compressor 'pcodec' is not known"),
        ({"filters": [{"id": "delta"}]}, "filter 'delta' is not known"),
        ({"dimension_separator": "../"}, "chunks named with"),
        ({"order": None, "chunks": None}, "TypeError"),
    ],
)
def test_an_array_that_cannot_be_read_says_why(tmp_path: Path, change: Any, said: str) -> None:
    folder = write_v2(tmp_path / "a", make_volume())
    page = json.loads((folder / ".zarray").read_text()) | change
    (folder / ".zarray").write_text(json.dumps(page))
    message = refusal(folder)
    assert ".zarray: " in message
    assert said in message


@pytest.mark.parametrize("content", ["", "{", "[]", '{"zarr_format": 2}', "\x00"])
def test_a_damaged_description_is_named(tmp_path: Path, content: str) -> None:
    folder = write_v2(tmp_path / "a", make_volume())
    (folder / ".zarray").write_text(content)
    assert ".zarray: " in refusal(folder)


def test_an_array_without_chunks_is_not_complete(tmp_path: Path) -> None:
    folder = write_v2(tmp_path / "a", make_volume())
    for path in folder.glob("[0-9]*"):
        path.unlink()
    assert "no chunks beside it" in refusal(folder)


def test_chunks_with_the_names_of_another_array_are_none(tmp_path: Path) -> None:
    """The format fills what is not stored, so all of the volume would be empty."""
    folder = write_v2(tmp_path / "a", make_volume())
    page = json.loads((folder / ".zarray").read_text())
    (folder / ".zarray").write_text(json.dumps(page | {"shape": [1, *page["shape"]], "chunks": [1, *page["chunks"]]}))
    assert "no chunks beside it that are called like 0.0.0.0" in refusal(folder)
    (folder / ".zarray").write_text(json.dumps(page))
    other = write_v3(tmp_path / "b", make_volume())
    (folder / "zarr.json").write_text((other / "zarr.json").read_text())  # is read first
    assert "no chunks beside it that are called like c/0/0/0" in refusal(folder)


@pytest.mark.parametrize("path", ["../b", "/tmp", "1", 3, "c"])
def test_a_group_that_leads_nowhere_is_refused(tmp_path: Path, path: Any) -> None:
    write_v2(tmp_path / "b", make_volume())
    group(tmp_path / "a", modern=False, path=path)
    assert "group" in refusal(tmp_path / "a") or "multiscales" in refusal(tmp_path / "a")


def test_axes_in_another_order_are_refused(tmp_path: Path) -> None:
    group(tmp_path / "a", modern=True, axes="xyz")
    write_v3(tmp_path / "a" / "0", make_volume())
    assert "the last three must be z, y, x" in refusal(tmp_path / "a")


@pytest.mark.parametrize("packing", PACKED)
@pytest.mark.parametrize("damage", ["cut", "noise", "longer"])
def test_a_damaged_chunk_names_itself(tmp_path: Path, packing: str | None, damage: str) -> None:
    folder = write_v2(tmp_path / "a", make_volume(), packing=packing)
    content = (folder / "1.2.1").read_bytes()
    longer = PACKED[packing](bytes(2 * 4 * 16 * 32 + 64))
    broken = {"cut": content[: len(content) // 2], "noise": b"\xff\x13" * 40, "longer": longer}[damage]
    (folder / "1.2.1").write_bytes(broken)
    stack = volumes.open_stack(folder)
    assert stack.read_band(0, 16, 0, 4).any()
    with pytest.raises(DataError, match=r"1\.2\.1: damaged: "):
        stack.read_band(32, 48, 4, 7)


def test_a_truncated_shard_names_itself(tmp_path: Path) -> None:
    folder = write_v3(tmp_path / "a", make_volume(), shard=(4, 32, 64))
    path = folder / "c" / "1" / "0" / "0"
    for length in (10, 0):
        path.write_bytes(path.read_bytes()[:length])
        with pytest.raises(DataError, match="truncated"):
            volumes.open_stack(folder).read_band(0, 50, 4, 7)


@settings(max_examples=60, deadline=None)
@given(text=st.text(st.sampled_from('{}[]",:0123456789abcnulshpez_ '), max_size=60), place=st.integers(0, 200))
def test_any_description_is_read_or_refused(tmp_path_factory: Any, text: str, place: int) -> None:
    folder = write_v2(tmp_path_factory.mktemp("z") / "a", make_volume(1, 5, 5))
    page = (folder / ".zarray").read_text()
    (folder / ".zarray").write_text(page[:place] + text + page[place + len(text) :])
    said = ".zarray is read"
    try:
        stack = volumes.open_stack(folder)
        stack.read_band(0, min(1, stack.shape[0]), 0, 1)
    except DataError as error:
        said = str(error)
    assert folder.name in said


# --- checksums, codecs that run code, sizes that lie ----------------------------------------------------------------


def test_a_flipped_bit_is_found_by_its_checksum(tmp_path: Path) -> None:
    folder = write_v3(tmp_path / "a", make_volume(), packing=None)
    page = json.loads((folder / "zarr.json").read_text())
    page["codecs"].append({"name": "crc32c"})
    (folder / "zarr.json").write_text(json.dumps(page))
    for path in folder.glob("c/*/*/*"):
        path.write_bytes(path.read_bytes() + struct.pack("<I", google_crc32c.value(path.read_bytes())))
    check(folder, make_volume())
    path = folder / "c" / "1" / "2" / "1"
    content = bytearray(path.read_bytes())
    content[5] ^= 16
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"c/1/2/1: damaged: .*checksum"):
        volumes.open_stack(folder).read_band(32, 48, 4, 7)


def test_a_flipped_bit_in_the_index_of_a_shard_is_found(tmp_path: Path) -> None:
    folder = write_v3(tmp_path / "a", make_volume(), shard=(4, 32, 64))
    path = folder / "c" / "1" / "0" / "0"
    content = bytearray(path.read_bytes())
    content[-20] ^= 1
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"c/1/0/0: damaged: .*checksum"):
        volumes.open_stack(folder).read_band(0, 50, 4, 7)


@pytest.mark.parametrize("place", ["compressor", "filters"])
def test_no_codec_that_runs_code_is_called(tmp_path: Path, place: str) -> None:
    folder = write_v2(tmp_path / "a", make_volume())
    page = json.loads((folder / ".zarray").read_text())
    page[place] = {"id": "pickle"} if place == "compressor" else [{"id": "pickle"}]
    (folder / ".zarray").write_text(json.dumps(page))
    assert "'pickle' is not known" in refusal(folder)


@pytest.mark.parametrize(
    ("codecs", "said"),
    [
        ([{"name": "bytes", "configuration": {"endian": "middle"}}], "endian 'middle'"),
        ([{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "numcodecs.pickle"}], "is not known"),
        ([{"name": "gzip", "configuration": {"level": 1}}], "codec 'gzip' is not known"),
        ([], "IndexError"),
        ([{"name": "bytes"}, *[{"name": "crc32c"}] * 100_000], "100,001 codecs, one after the other"),
    ],
)
def test_codecs_of_format_3_are_checked(tmp_path: Path, codecs: Any, said: str) -> None:
    folder = write_v3(tmp_path / "a", make_volume())
    page = json.loads((folder / "zarr.json").read_text()) | {"codecs": codecs}
    (folder / "zarr.json").write_text(json.dumps(page))
    assert said in refusal(folder)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"order": "K"}, "order 'K'"),
        ({"fill_value": -1}, "fill"),
        ({"fill_value": 65536}, "fill"),
        ({"fill_value": 0.5}, "fill value 0.5"),
        ({"fill_value": "NaN"}, "fill value 'NaN'"),
        ({"fill_value": 1e400}, "fill value inf"),
        ({"dtype": "<u2, "}, "not an array that can be read"),
        ({"dtype": "<u2" * 10_000}, "...): write it again"),
        ({"dtype": [["a", "<u2"]]}, "dtype"),
        ({"shape": [7, 50, 1e2]}, "expected slices, rows, columns"),
        ({"shape": [True, 50, 61]}, "expected slices, rows, columns"),
    ],
)
def test_every_field_of_a_description_is_checked(tmp_path: Path, change: Any, said: str) -> None:
    folder = write_v2(tmp_path / "a", make_volume())
    (folder / ".zarray").write_text(json.dumps(json.loads((folder / ".zarray").read_text()) | change))
    assert said in refusal(folder)


def test_the_fill_value_stands_for_chunks_that_are_not_stored(tmp_path: Path) -> None:
    folder, volume = write_v2(tmp_path / "a", make_volume()), make_volume()
    page = json.loads((folder / ".zarray").read_text()) | {"fill_value": 7}
    (folder / ".zarray").write_text(json.dumps(page))
    (folder / "0.0.0").unlink()
    volume[:4, :16, :32] = 7
    check(folder, volume)


@pytest.mark.slow
@pytest.mark.parametrize("packing", ["zlib", "gzip", "bz2", "lzma", "zstd", "blosc", "lz4"])
def test_a_small_file_cannot_fill_the_memory(tmp_path: Path, packing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "MAX_CHUNK", 1 << 24)
    folder = write_v2(tmp_path / "a", make_volume(), packing=packing)
    stack = volumes.open_stack(folder)
    (folder / "1.2.1").write_bytes(PACKED[packing](bytes(1 << 28)))
    tracemalloc.start()
    with pytest.raises(DataError, match=r"1\.2\.1: damaged: "):
        stack.read_band(32, 48, 4, 7)
    assert tracemalloc.get_traced_memory()[1] < 1 << 25
    tracemalloc.stop()


def test_a_pipe_among_the_chunks_is_refused_at_once(tmp_path: Path) -> None:
    folder = write_v2(tmp_path / "a", make_volume())
    (folder / "1.2.1").unlink()
    os.mkfifo(folder / "1.2.1")
    with pytest.raises(DataError, match=r"1\.2\.1: a named pipe, not a regular file"):
        volumes.open_stack(folder).read_band(32, 48, 4, 7)


def test_a_stack_travels_between_processes(tmp_path: Path) -> None:
    stack = pickle.loads(pickle.dumps(volumes.open_stack(write_v3(tmp_path / "a", make_volume(), shard=(4, 32, 64)))))
    np.testing.assert_array_equal(stack.read_band(3, 40, 1, 6), make_volume()[1:6, 3:40])


def test_without_the_library_it_is_said_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_v2(tmp_path / "a", make_volume())
    monkeypatch.setitem(sys.modules, "zarr", None)
    assert "a Zarr array needs zarr: pip install 'handlens[zarr]'" in refusal(folder)


def test_slices_in_tiff_never_import_the_library(tmp_path: Path) -> None:
    tifffile.imwrite(tmp_path / "00.tif", np.zeros((5, 6), np.uint16))
    code = "import sys; from pathlib import Path; from handlens.io import volumes; "
    code += "volumes.open_stack(Path(sys.argv[1])).read_band(0, 5, 0, 1); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code, tmp_path], capture_output=True, text=True, check=True)
    assert not {"zarr", "numcodecs", "pyarrow"} & set(done.stdout.split())


def test_a_zstd_frame_that_hides_its_size_is_bounded(tmp_path: Path) -> None:
    volume = make_volume()
    folder = write_v2(tmp_path / "a", volume, packing="zstd")
    path = folder / "0.0.0"
    raw = bytes(imagecodecs.zstd_decode(path.read_bytes()))
    block = len(raw) << 3 | 1  # one block, stored as it is, the last
    hidden = b"\x28\xb5\x2f\xfd" + b"\x00\x58" + block.to_bytes(3, "little") + raw
    path.write_bytes(hidden)
    check(folder, volume)
    more = b"".join((100_000 << 3 | 1 << 1).to_bytes(3, "little") + b"x" for _ in range(9_999))
    path.write_bytes(hidden[:6] + more + hidden[6:])
    with pytest.raises(DataError, match=r"0\.0\.0: damaged: it can hold more than the [\d,]+ bytes of a chunk"):
        volumes.open_stack(folder).read_band(0, 4, 0, 1)


def test_an_impossible_depth_is_refused(tmp_path: Path) -> None:
    folder = write_v2(tmp_path / "a", make_volume())
    page = json.loads((folder / ".zarray").read_text())
    (folder / ".zarray").write_text(json.dumps(page | {"shape": [10**12, *page["shape"][1:]]}))
    with pytest.raises(DataError, match=r"1,000,000,000,000 slices; a stack has 1 to 1,000,000"):
        volumes.open_stack(folder)


@pytest.mark.parametrize("seed", [0, 2])
def test_a_description_that_says_another_format_is_refused(seed, tmp_path):
    from fuzz.kinds import unpack_folder, zarr_seeds

    for name, content in unpack_folder(zarr_seeds()[seed]).items():
        file = tmp_path / "volume.zarr" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.replace(b'"zarr_format": ', b'"zarr_format": 1'))
    with pytest.raises(DataError, match="zarr_format 1"):
        volumes.open_stack(tmp_path / "volume.zarr")
