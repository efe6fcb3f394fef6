"""What was read from servers, kept in one file without a name: it is gone with its process, however that ends.

The oldest makes room for the newest. So a header that is looked at five times, or a chunk that two passes need, comes
over the network once.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import weakref
from bisect import bisect_right, insort
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

ROOM = 32 << 30
"""Bytes that are kept at the most; and a quarter of what is free on the disk."""

Key = tuple[str, str, int]
"""A file as it was: address, tag, size."""


@dataclass(frozen=True, slots=True, order=True)
class _Piece:
    start: int
    end: int
    place: int


class Ring:
    """Pieces of files in one file without a name, of `room` bytes; the oldest are overwritten."""

    def __init__(self, room: int) -> None:
        self.room, self.head = room, 0
        with tempfile.TemporaryFile(prefix="handlens-") as file:
            self.file = os.dup(file.fileno())
        weakref.finalize(self, os.close, self.file)
        self.pieces: dict[Key, list[_Piece]] = {}
        self.order: deque[tuple[Key, _Piece]] = deque()
        self.lock = threading.Lock()

    def find(self, key: Key, start: int, most: int) -> bytes:
        """What is known from `start` on, at most so much; nothing where it is not known."""
        with self.lock:
            known = self.pieces.get(key, [])
            before = known[: bisect_right(known, start, key=lambda piece: piece.start)]
            piece = max(before, key=lambda piece: piece.end, default=None)  # a long one may begin before short ones
            if piece is None or piece.end <= start:
                return b""
            return os.pread(self.file, min(most, piece.end - start), piece.place + start - piece.start)

    def gaps(self, key: Key, start: int, end: int) -> list[tuple[int, int]]:
        """What of these bytes is not known."""
        found = []
        with self.lock:
            for piece in self.pieces.get(key, []):
                if piece.end <= start or piece.start >= end:
                    continue
                if piece.start > start:
                    found.append((start, piece.start))
                start = piece.end
        return [*found, (start, end)] if start < end else found

    def keep(self, key: Key, start: int, data: bytes) -> None:
        """Where there is no room, or none left on the disk, it is not kept."""
        if not data or len(data) > self.room // 2:
            return
        with self.lock:
            if self.head + len(data) > self.room:
                self._forget(lambda piece: piece.place >= self.head)
                self.head = 0
            place, end = self.head, self.head + len(data)
            self._forget(lambda piece: piece.place < end and piece.place + piece.end - piece.start > place)
            try:
                written = 0
                while written < len(data):
                    written += os.pwrite(self.file, memoryview(data)[written:], place + written)
            except OSError:
                self.room = place
                return
            self.head = end
            piece = _Piece(start, start + len(data), place)
            insort(self.pieces.setdefault(key, []), piece)
            self.order.append((key, piece))

    def _forget(self, is_over: Callable[[_Piece], bool]) -> None:
        while self.order and is_over(self.order[0][1]):
            key, piece = self.order.popleft()
            self.pieces[key].remove(piece)
            if not self.pieces[key]:
                del self.pieces[key]


@lru_cache(maxsize=1)
def ring() -> Ring:
    return Ring(min(ROOM, shutil.disk_usage(tempfile.gettempdir()).free // 4))
