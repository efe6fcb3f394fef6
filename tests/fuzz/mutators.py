"""Changes to a file, drawn by a seeded `random.Random`: any bytes, and the parts that each format is made of."""

import csv
import io
import json
import re
import struct
import zlib

NUMBERS = (0, 1, 2, 3, 7, 8, 15, 16, 17, 127, 128, 255, 256, 1000, 4096, 32767, 32768, 65535, 65536, 2**24, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**63)  # fmt: skip
TEXTS = (b"", b"0", b"-1", b"1e9", b"nan", b"inf", b"99999999999999999999", b"\x00", b"\xff", b"..", b"/", b'"', b"true", b"null", b"[", b"{")  # fmt: skip


def change_bytes(data, dice):
    """One to four small changes anywhere."""
    data = bytearray(data)
    for _ in range(dice.choice((1, 1, 2, 4))):
        if not data:
            return b"\0"
        place = dice.randrange(len(data))
        action = dice.randrange(9)
        if action <= 1:
            data[place] ^= 1 << dice.randrange(8)
        elif action == 2:
            data[place] = dice.randrange(256)
        elif action == 3:
            del data[place : place + dice.choice((1, 1, 2, 4, 16, 64))]
        elif action == 4:
            data[place:place] = dice.randbytes(dice.choice((1, 1, 2, 8, 32)))
        elif action == 5:
            size = dice.choice((1, 2, 4, 8))
            number = dice.choice(NUMBERS) & (1 << 8 * size) - 1
            data[place : place + size] = number.to_bytes(size, dice.choice(("little", "big")))
        elif action == 6:
            start = dice.randrange(len(data))
            data[place:place] = data[start : start + dice.choice((4, 16, 64))]
        elif action == 7:
            del data[max(1, place) :]
        else:
            start = dice.randrange(len(data))
            piece = data[start : start + dice.choice((1, 4, 16))]
            data[place : place + len(piece)] = piece
    return bytes(data)


def change_numerals(data, dice):
    """A number that is written in letters becomes another."""
    found = list(re.finditer(rb"\d+", data))
    if not found:
        return change_bytes(data, dice)
    place = dice.choice(found)
    old = int(place.group()[:18])
    new = dice.choice((old + 1, old - 1, 0, -1, 600, 601, 2**31, 2**63, 10**25, 1.0, "01", "", f" {old} ", "1e3", "inf", "nan", "٣", "-0.0", "0.999", "1.001", "0.998"))  # fmt: skip
    return data[: place.start()] + str(new).encode() + data[place.end() :]


# --- tables -------------------------------------------------------------------------------------------------------


def change_rows(data, dice):
    lines = data.split(b"\n")[:-1] or [b""]
    header, rows = lines[0], lines[1:] or [b""]
    action = dice.randrange(7)
    if action == 0:
        dice.shuffle(rows)
    elif action == 1:
        rows.append(dice.choice(rows))
    elif action == 2:
        rows.remove(dice.choice(rows))
    elif action == 3:
        rows.insert(dice.randrange(len(rows) + 1), dice.choice([b"", b",", b"x,y", b" ", b'"', *rows]))
    elif action == 4:
        rows = [row + b"," for row in rows]
    elif action == 5:
        header = header[::-1]
    else:
        rows[0], header = header, rows[0]
    return b"\n".join([header, *rows]) + b"\n"


def change_quoting(data, dice):
    ending, quoting = dice.choice(["\n", "\r\n", "\r"]), dice.choice([csv.QUOTE_ALL, csv.QUOTE_MINIMAL])
    try:
        rows = list(csv.reader(io.StringIO(data.decode(), newline="")))
        stream = io.StringIO()
        csv.writer(stream, lineterminator=ending, quoting=quoting).writerows(rows)
    except (csv.Error, UnicodeDecodeError):  # an earlier change left no table
        return change_bytes(data, dice)
    text = stream.getvalue()
    text = text.rstrip("\r\n") if dice.random() < 0.3 else text + ending * dice.randrange(3)
    text = text.replace('"', "'", dice.randrange(2))
    return b"\xef\xbb\xbf" * dice.randrange(2) + text.encode()


def change_letters(data, dice):
    """A letter that means something to a table is put in."""
    place = dice.randrange(len(data) + 1)
    return data[:place] + bytes([dice.choice(b'0123456789 ,;"[]\r\n\t\x00-.eE\xff\xc3')]) + data[place:]


def change_footer(data, dice):
    """A number in the footer of a Parquet file becomes another, as long as it has to be; the footer's length is mended."""
    size = int.from_bytes(data[-8:-4], "little")
    if len(data) < 12 or not 0 < size <= len(data) - 8:
        return change_bytes(data, dice)
    footer = data[-8 - size : -8]
    place = dice.randrange(size)
    number, varint = dice.choice(NUMBERS), b""
    while number > 0x7F:
        varint, number = varint + bytes([number & 0x7F | 0x80]), number >> 7
    old = 1  # bytes of the number that stands there, if it is one
    while old < 10 and footer[place + old - 1 : place + old] >= b"\x80":
        old += 1
    footer = footer[:place] + varint + bytes([number]) + footer[place + old :]
    return data[: -8 - size] + footer + len(footer).to_bytes(4, "little") + data[-4:]


# --- pictures -----------------------------------------------------------------------------------------------------


def change_png(data, dice):
    """A chunk is changed, dropped, doubled or moved; its checksum is mended, more often than not."""
    chunks, place = [], 8
    while place + 12 <= len(data):
        size = int.from_bytes(data[place : place + 4], "big")
        chunks.append((data[place + 4 : place + 8], data[place + 8 : place + 8 + size]))
        place += 12 + size
    if not chunks:
        return change_bytes(data, dice)
    index = dice.randrange(len(chunks))
    name, content = chunks[index]
    action = dice.randrange(6)
    if action == 0 and name == b"IDAT":
        try:
            content = zlib.compress(change_bytes(zlib.decompress(content), dice))
        except zlib.error:
            content = change_bytes(content, dice)
        chunks[index] = (name, content)
    elif action <= 2:
        chunks[index] = (name, change_bytes(content, dice))
    elif action == 3:
        del chunks[index]
    elif action == 4:
        chunks.insert(dice.randrange(len(chunks) + 1), chunks[index])
    else:
        extra = dice.choice((b"tEXt", b"eXIf", b"tRNS", b"gAMA", b"PLTE", b"IDAT", b"ABCD", b"acTL"))
        chunks.insert(dice.randrange(len(chunks) + 1), (extra, dice.randbytes(dice.choice((0, 3, 6, 40)))))
    right = dice.random() < 0.8
    body = b"".join(
        struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content) if right else 7)
        for name, content in chunks
    )
    return data[:8] + body


def change_jpeg(data, dice):
    """A segment is changed, dropped or doubled, or the pixels are cut and the end put back."""
    places, place = [], 2
    while data[place : place + 1] == b"\xff" and place + 4 <= len(data) and data[place + 1] != 0xD9:
        places.append(place)
        if data[place + 1] == 0xDA:
            break
        place += 2 + int.from_bytes(data[place + 2 : place + 4], "big")
    if not places or dice.random() < 0.3:
        start = places[-1] if places else 0
        end = dice.randrange(start, len(data) + 1)
        return data[:end] + b"\xff\xd9"
    start = dice.choice(places)
    end = start + 2 + int.from_bytes(data[start + 2 : start + 4], "big")
    action = dice.randrange(3)
    piece = data[start:end]
    new = (change_bytes(piece, dice), b"", piece + piece)[action]
    return data[:start] + new + data[end:]


def change_tiff(data, dice):
    """A field of a tag in the first directory."""
    mark = "<" if data[:2] == b"II" else ">"
    if len(data) < 8:
        return change_bytes(data, dice)
    (place,) = struct.unpack(mark + "I", data[4:8])
    if place + 2 > len(data):
        return change_bytes(data, dice)
    (count,) = struct.unpack(mark + "H", data[place : place + 2])
    start = place + 2 + 12 * dice.randrange(max(1, min(count, 64)))
    width, offset = dice.choice(((2, 0), (2, 2), (4, 4), (4, 8), (2, 8)))
    number = dice.choice((*NUMBERS, 258, 259, 262, 273, 279, 339, 4, 5, 6, 32773)) & (1 << 8 * width) - 1
    changed = bytearray(data)
    changed[start + offset : start + offset + width] = number.to_bytes(width, "little" if mark == "<" else "big")
    return bytes(changed)


# --- arrays and documents -----------------------------------------------------------------------------------------


def change_json(data, dice):
    """A value of a JSON text becomes another, or a key is lost."""
    try:
        page = json.loads(data)
    except ValueError:
        return change_bytes(data, dice)
    spots = list(_spots(page))
    if not spots:
        return change_bytes(data, dice)
    holder, key = dice.choice(spots)
    if dice.random() < 0.15:
        del holder[key]
    else:
        holder[key] = dice.choice((None, 0, 1, -1, 2, 3, 2**31, 2**63, 10**30, 1.5, "", "C", "F", "<u2", "|u1", ">u2", "<f4", "object", "little", "big", "zlib", "gzip", "pickle", [], [1], [2, 2, 2], {}, True, "1e999", "../x"))  # fmt: skip
    return json.dumps(page).encode()


def _spots(page):
    for key in list(page if isinstance(page, dict) else range(len(page))):
        yield page, key
        if isinstance(page[key], dict | list):
            yield from _spots(page[key])


def change_words(words):
    """One of the words of a format takes the place of another, or is put somewhere."""
    pattern = re.compile(b"|".join(map(re.escape, sorted(words, key=len, reverse=True))))

    def change(data, dice):
        found = list(pattern.finditer(data))
        if not found or dice.random() < 0.2:
            place = dice.randrange(len(data) + 1)
            return data[:place] + dice.choice(words) + data[place:]
        place = dice.choice(found)
        return data[: place.start()] + dice.choice((*words, *TEXTS)) + data[place.end() :]

    return change


def mutated(seeds, mutators, dice):
    """One of the seeds with one or two changes."""
    data = dice.choice(seeds)
    for _ in range(dice.choice((1, 1, 1, 2))):
        data = dice.choice(mutators)(data, dice)
    return data
