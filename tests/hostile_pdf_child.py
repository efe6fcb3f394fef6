"""A PDFium that a page can kill or stop, in place of the real one: what such a page does to the rest."""

import os
import time

from handlens.io import pdf
from handlens.sandbox import pdf_child

_list_figures, _read_figure = pdf.list_figures, pdf.read_figure


def dies() -> None:
    """Page 2 ends the process when it is listed."""

    def list_figures(document, page):
        if page == 2:
            os.abort()
        return _list_figures(document, page)

    pdf.list_figures = list_figures
    pdf_child.main()


def dies_late() -> None:
    """Images of page 2 end the process when they are read."""

    def read_figure(document, figure, *, masked):
        if figure.page == 2:
            os.abort()
        return _read_figure(document, figure, masked=masked)

    pdf.read_figure = read_figure
    pdf_child.main()


def hangs() -> None:
    """Page 2 is never finished."""

    def list_figures(document, page):
        while page == 2:
            pass
        return _list_figures(document, page)

    pdf.list_figures = list_figures
    pdf_child.main()


def sleeps() -> None:
    """Page 2 is never finished either, and takes no processor."""

    def list_figures(document, page):
        while page == 2:
            time.sleep(0.01)
        return _list_figures(document, page)

    pdf.list_figures = list_figures
    pdf_child.main()


def waits() -> None:
    """Page 2 takes long by the clock, as on a busy machine."""

    def list_figures(document, page):
        if page == 2:
            time.sleep(2)
        return _list_figures(document, page)

    pdf.list_figures = list_figures
    pdf_child.main()


def takes_all() -> None:
    """Page 2 wants more memory than there is."""

    def list_figures(document, page):
        kept = []
        while page == 2:
            kept.append(bytearray(1 << 28))
        return _list_figures(document, page)

    pdf.list_figures = list_figures
    pdf_child.main()
