"""Run-length text to pixels and back, one number and one pixel at a time."""

import numpy as np


def decode(numbers, shape, order):
    """Pixels of `[start, length, ...]`, counted from 1."""
    flat = [0] * (shape[0] * shape[1])
    for start, length in zip(numbers[0::2], numbers[1::2], strict=True):
        for pixel in range(start - 1, start - 1 + length):
            flat[pixel] = 1
    return np.array(flat, np.uint8).reshape(shape, order="C" if order == "rows" else "F")


def encode(mask, order):
    """`[start, length, ...]` of a mask, walking over its pixels."""
    height, width = mask.shape
    if order == "rows":
        walk = [mask[y, x] for y in range(height) for x in range(width)]
    else:
        walk = [mask[y, x] for x in range(width) for y in range(height)]
    numbers, before = [], 0
    for position, pixel in enumerate(walk, 1):
        if pixel and not before:
            numbers += [position, 0]
        if pixel:
            numbers[-1] += 1
        before = pixel
    return numbers


def counts(predicted, true):
    """tp, fp, fn, pixel by pixel."""
    tp = fp = fn = 0
    for said, is_there in zip(predicted.ravel(), true.ravel(), strict=True):
        tp += bool(said and is_there)
        fp += bool(said and not is_there)
        fn += bool(is_there and not said)
    return tp, fp, fn
