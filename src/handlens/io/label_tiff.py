"""Label images as tiled TIFF files, pyramids where they are large; tiles come packed, none is kept."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from handlens.types import Shape


def write_labels(
    path: Path, pages: Iterable[Iterator[bytes]], shape: Shape, dtype: np.dtype[Any], *, levels: int, tile: int
) -> None:
    """A label image of tiles packed with zlib already; with several levels an OME-TIFF, each half of the one before."""
    import tifffile

    layout: dict[str, Any] = {
        "dtype": dtype,
        "tile": (tile, tile),
        "photometric": "minisblack",
        "compression": "zlib",
        "software": False,
    }
    pyramid = levels > 1
    with tifffile.TiffWriter(path, ome=pyramid, bigtiff=shape[0] * shape[1] * dtype.itemsize >= 2**31) as writer:
        for level, tiles in enumerate(pages):
            size = tuple(-(-side // (1 << level)) for side in shape)
            if level:
                writer.write(tiles, shape=size, subfiletype=1, metadata=None, **layout)
            else:
                metadata = {"axes": "YX"} if pyramid else None
                writer.write(tiles, shape=size, subifds=levels - 1, metadata=metadata, **layout)
