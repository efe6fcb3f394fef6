"""Baseline JPEG, checked strictly: markers, tables, and that every block's codes are there. Pixels are not made."""

from oracles.strict import DamagedError, demand, know

AHEAD = 10  # bytes: what libjpeg's buffer of bits holds, and the mark


def check(data):
    """(height, width, components) of a sound file."""
    demand(data[:2] == b"\xff\xd8", "start")
    place, tables, frame, interval = 2, {}, None, 0
    while True:
        demand(place + 4 <= len(data) and data[place] == 0xFF, "marker")
        mark = data[place + 1]
        if mark == 0xFF:
            place += 1
            continue
        know(mark != 0xD9 and not 0xD0 <= mark <= 0xD8 and mark != 1, "no scan, or marks out of place")
        size = int.from_bytes(data[place + 2 : place + 4], "big")
        demand(size >= 2 and place + 2 + size <= len(data), "segment")
        body = data[place + 4 : place + 2 + size]
        place += 2 + size
        if mark == 0xC4:
            _huffman(body, tables)
        elif mark == 0xDD:
            demand(len(body) == 2, "interval")
            interval = int.from_bytes(body, "big")
        elif mark in (0xC0, 0xC1):
            know(frame is None, "two frames")
            frame = _frame(body)
        elif mark == 0xDA:
            demand(frame is not None, "a scan without frame")
            _scan(body, frame, tables, interval, data, place)
            return frame[0], frame[1], len(frame[2])
        else:
            know(mark in (0xDB, 0xFE) or 0xE0 <= mark <= 0xEF, "not baseline")
            know(mark != 0xE1, "notes that may turn it")


def _huffman(body, tables):
    place = 0
    while place < len(body):
        demand(place + 17 <= len(body), "table")
        counts = body[place + 1 : place + 17]
        symbols = body[place + 17 : place + 17 + sum(counts)]
        demand(len(symbols) == sum(counts) <= 256, "table")
        codes, code, index = {}, 0, 0
        for length, count in enumerate(counts, 1):
            for _ in range(count):
                demand(code < 1 << length, "table")
                codes[length, code] = symbols[index]
                code, index = code + 1, index + 1
            code <<= 1
        tables[body[place]] = codes
        place += 17 + sum(counts)


def _frame(body):
    demand(len(body) >= 6 and len(body) == 6 + 3 * body[5], "frame")
    know(body[0] == 8 and body[5] in (1, 3), "bits or components")
    height, width = int.from_bytes(body[1:3], "big"), int.from_bytes(body[3:5], "big")
    know(0 < height <= 256 and 0 < width <= 256, "size")
    parts = {}
    for index in range(body[5]):
        name, factors, _ = body[6 + 3 * index : 9 + 3 * index]
        demand(1 <= factors >> 4 <= 4 and 1 <= factors & 15 <= 4 and name not in parts, "component")
        parts[name] = (factors >> 4, factors & 15)
    return height, width, parts


def _scan(body, frame, tables, interval, data, place):
    height, width, parts = frame
    demand(len(body) >= 1 and len(body) == 4 + 2 * body[0], "scan")
    know(body[0] == len(parts) and body[-3:] == b"\0\x3f\0", "several scans")
    chosen = []
    for index in range(body[0]):
        name, which = body[1 + 2 * index : 3 + 2 * index]
        demand(name in parts, "scan of an unknown component")
        steady, varying = tables.get(which >> 4), tables.get(0x10 | which & 15)
        know(steady is not None and varying is not None, "tables that a decoder may have by itself")
        across, down = parts[name] if len(parts) > 1 else (1, 1)
        chosen += [(steady, varying)] * (across * down)
    most = [max(sizes[axis] for sizes in parts.values()) if len(parts) > 1 else 1 for axis in (0, 1)]
    units = -(-width // (8 * most[0])) * -(-height // (8 * most[1]))
    bits = _Bits(data, place)
    for unit in range(units):
        if interval and unit and unit % interval == 0:
            bits.restart((unit // interval - 1) % 8)
        for steady, varying in chosen:
            _block(bits, steady, varying)
    know(bits.is_at_end(), "something follows before the end")


def _block(bits, steady, varying):
    size = bits.symbol(steady)
    demand(size <= 16, "code")
    bits.take(size)
    index = 1
    while index < 64:
        symbol = bits.symbol(varying)
        run, size = symbol >> 4, symbol & 15
        if size == 0 and run != 15:
            break
        index += run + 1
        know(index <= 64 or (size == 0 and index <= 65), "too many numbers in a block")  # libjpeg leaves them out
        bits.take(size)


class _Bits:
    def __init__(self, data, place):
        self.data, self.place, self.value, self.left = data, place, 0, 0

    def take(self, count):
        while self.left < count:
            demand(self.place < len(self.data), "pixels end early")
            byte = self.data[self.place]
            if byte == 0xFF:
                after = self.data[self.place + 1 : self.place + 2]
                know(after != b"\xff", "fillers among the pixels")  # libjpeg takes them for fillers before a mark
                demand(after == b"\0", "a mark among the pixels")
                self.place += 1
            self.place += 1
            self.value, self.left = (self.value << 8 | byte) & 0xFFFFFF, self.left + 8
        self.left -= count
        return self.value >> self.left & ((1 << count) - 1)

    def symbol(self, codes):
        code = 0
        for length in range(1, 17):
            code = code << 1 | self.take(1)
            if (length, code) in codes:
                return codes[length, code]
        raise DamagedError("bad code")

    def restart(self, number):
        mark = bytes([0xFF, 0xD0 + number])
        known = self.data[self.place : self.place + 2] == mark
        # libjpeg passes over a few bytes that no block needs, as far as it had read ahead
        know(known or mark not in self.data[self.place : self.place + AHEAD], "bytes before a restart mark")
        demand(known, "restart mark")
        self.place, self.left = self.place + 2, 0

    def is_at_end(self):
        place = self.place
        while self.data[place : place + 2] == b"\xff\xff":
            place += 1
        return self.data[place : place + 2] == b"\xff\xd9"
