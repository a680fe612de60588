#!/usr/bin/env python3
"""Makes meaning.table from the WordLlama package.

    pip download wordllama==0.4.0.post1 --no-deps
    ./make.py wordllama-0.4.0.post1-*.whl meaning.table

Needs nothing but Python. The layout is the one that src/meaning.rs reads.
"""

import array
import json
import struct
import sys
import zipfile

DIMENSIONS = 64
SLOTS = 1 << 16
EMPTY = 0xFFFF
LONGEST_NAME = 16
SCALE = 4096
STEPS = 7
WEIGHTS = "wordllama/weights/l2_supercat_256.safetensors"
TOKENIZER = "wordllama/tokenizers/l2_supercat_tokenizer_config.json"


def read(package):
    """The vocabulary, by its numbers, and the first dimensions of each row."""
    with zipfile.ZipFile(package) as files:
        vocabulary = json.loads(files.read(TOKENIZER))["model"]["vocab"]
        weights = files.read(WEIGHTS)
    (length,) = struct.unpack_from("<Q", weights)
    about = json.loads(weights[8 : 8 + length])["embedding.weight"]
    count, width = about["shape"]
    if about["dtype"] != "F16" or count != len(vocabulary):
        sys.exit(f"unexpected weights: {about}")
    start = 8 + length + about["data_offsets"][0]
    rows = [struct.unpack_from(f"<{DIMENSIONS}e", weights, start + 2 * width * n) for n in range(count)]
    return sorted(vocabulary.items(), key=lambda one: one[1]), rows


def chosen(vocabulary):
    """The tokens that are letters and digits in lower case: name, whether it begins a word, number."""
    for token, number in vocabulary:
        begins = token.startswith("\u2581")
        name = token.removeprefix("\u2581")
        if name.isalnum() and name == name.lower() and len(name.encode()) <= LONGEST_NAME:
            yield name.encode(), begins, number


def hashed(name, begins):
    value = 0x811C9DC5 if begins else 0x01000193
    for byte in name:
        value = ((value ^ byte) * 0x01000193) & 0xFFFFFFFF
    return (value ^ value >> 16) & (SLOTS - 1)


def steps(row):
    """The scale of a row, and its numbers in steps of a seventh of the largest, two in a byte."""
    largest = max(abs(number) for number in row)
    quantised = [round(number / largest * STEPS) + 8 for number in row]
    return round(largest * SCALE), bytes(low | high << 4 for low, high in zip(quantised[::2], quantised[1::2]))


def make(package):
    vocabulary, rows = read(package)
    names, scales, kinds, data = [], [], bytearray(), bytearray()
    slots = [EMPTY] * SLOTS
    for index, (name, begins, number) in enumerate(chosen(vocabulary)):
        slot = hashed(name, begins)
        while slots[slot] != EMPTY:
            slot = (slot + 1) & (SLOTS - 1)
        slots[slot] = index
        scale, packed = steps(rows[number])
        names.append(name)
        scales.append(scale)
        kinds.append(begins)
        data += packed
    starts = [0]
    for name in names:
        starts.append(starts[-1] + len(name))
    head = struct.pack("<II", len(names), starts[-1])
    numbers = [array.array("I", starts), array.array("H", slots), array.array("H", scales)]
    if sys.byteorder == "big":
        for one in numbers:
            one.byteswap()
    return head + b"".join(one.tobytes() for one in numbers) + kinds + data + b"".join(names)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    table = make(sys.argv[1])
    with open(sys.argv[2], "wb") as out:
        out.write(table)
