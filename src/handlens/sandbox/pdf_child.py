"""The process that holds an untrusted PDF: locks itself, lists and reads figures, knows nothing else."""

from __future__ import annotations

import os
from typing import IO, Any

from handlens.errors import DataError
from handlens.sandbox import guard
from handlens.sandbox.frames import pack_arrays, read_frame, take_streams, write_frame


def main() -> None:
    """Serve one document until the requests end. What goes wrong is an answer, unless the process dies of it."""
    requests, answers = take_streams()
    order, _ = read_frame(requests)
    guard.limit(seconds=int(order["cpu_seconds"]))
    _load_libraries()
    guard.lock(memory_mib=int(order["memory_mib"]), descriptors=4)
    write_frame(answers, {"ready": True})
    try:
        _serve(requests, answers)
    except DataError as error:
        write_frame(answers, {"refused": error.what})
    except MemoryError:
        write_frame(answers, {"refused": "it needs more memory than is allowed: print it to a new PDF"})
    except Exception as error:  # such as an object that is none
        write_frame(answers, {"refused": f"cannot be read ({type(error).__name__}): print it to a new PDF"})


def _load_libraries() -> None:
    """Load all that is needed later: afterwards no file can be opened."""
    import numpy as np
    import PIL.Image
    import pypdfium2
    import simplejpeg  # noqa: F401

    from handlens.io import pdf  # noqa: F401

    PIL.Image.init()
    np.repeat(np.zeros((1, 1, 1), np.uint8), 3, axis=2)
    with pypdfium2.PdfDocument.new() as document:  # and what the library looks for once it begins, such as fonts
        document.new_page(10, 10).render().to_numpy()
    os.environ.clear()


def _serve(requests: IO[bytes], answers: IO[bytes]) -> None:
    from handlens.io import pdf

    _, content = read_frame(requests)
    masked = pdf.has_masks(content)
    with pdf.opened(content) as document:
        write_frame(answers, {"pages": len(document)})
        while (frame := read_frame(requests))[0]:
            write_frame(answers, *_answer(document, frame[0], masked))


def _answer(document: Any, asked: dict[str, Any], masked: bool) -> tuple[dict[str, Any], bytes]:
    from handlens.io import pdf

    if "list" in asked:
        figures = pdf.list_figures(document, int(asked["list"]))
        return {"figures": [_described(each) for each in figures]}, b""
    if "page" in asked:
        return {"figures": [_described(pdf.whole_page(document, int(asked["page"])))]}, b""
    page, number, box, shape, digest, pieces = asked["read"]
    places = tuple((index, top, left) for index, top, left in pieces)
    figure = pdf.PdfFigure(page, number, tuple(box), tuple(shape), digest, places)
    described, content = pack_arrays([pdf.read_figure(document, figure, masked=masked)])
    return {"arrays": described}, content


def _described(figure: Any) -> list[Any]:
    return [figure.page, figure.number, figure.box, figure.shape, figure.digest, figure.pieces]
