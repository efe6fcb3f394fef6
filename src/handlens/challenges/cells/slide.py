"""A slide as the predictor gets it: rows of an image, and whether it is one of the contest's."""

from __future__ import annotations

from dataclasses import dataclass

from handlens.io.row_reader import ByteImage, RowReader, in_memory


@dataclass(frozen=True, slots=True)
class Slide(RowReader):
    """Rows of an image; `contest` says that it lies in the contest's layout, whose labels have habits of their own."""

    contest: bool = False


def slide_of(image: RowReader, *, contest: bool) -> Slide:
    return Slide(image.shape, image.read, image.held, contest=contest)


def slide_in_memory(picture: ByteImage) -> Slide:
    """An (H, W, 3) picture that is nobody's but the user's."""
    return slide_of(in_memory(picture), contest=False)
