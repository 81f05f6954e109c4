"""Files of arrays that are none: any header, of any alleged size, over any data."""

import json
import struct

NUMBERS = {
    "BOOL": 1, "U8": 1, "I8": 1, "F8_E4M3": 1, "F8_E5M2": 1, "BF16": 2, "F16": 2, "F32": 4, "I64": 8, "U64": 8,
    "C64": 8, "F64": 8, "F4": 1, "F6_E2M3": 1, "X9": 8,
}  # fmt: skip
"""A type and the bytes of a number, roughly: some are no types of this format, or none that numpy has."""


def file(header, data=b"", size=None):
    """A safetensors file: the size of the header, the header, the data."""
    text = header if isinstance(header, str) else json.dumps(header)
    return struct.pack("<Q", len(text.encode()) if size is None else size) + text.encode() + data


def tensor(dtype, shape, start, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}


def curve(name="a", x=(1,), y=(1, 1), dtype="F64", size=8):
    """A header of one curve, x and y behind one another."""
    cut = x[0] * size if x else size
    return {
        f"{name}/x": tensor(dtype, list(x), 0, cut),
        f"{name}/y": tensor(dtype, list(y), cut, cut + (y[0] * y[1] * size if len(y) == 2 else size)),
    }


FILES = {
    "nothing": b"",
    "half a size": b"\x01\x00",
    "no array": file({}),
    "no header": file(""),
    "a header of 2^63": file("{}", size=2**63),
    "a header of 2^40": file("{}", size=2**40),
    "a list for a header": file("[]"),
    "a deep header": file("[" * 100_000),
    "null metadata": file({"__metadata__": None}),
    "metadata that is a number": file({"__metadata__": {"a": 1}}),
    **{
        f"{name} numbers": file(curve("a", (2,), (1, 2), name, size), bytes(4 * size)) for name, size in NUMBERS.items()
    },
    "x without y": file({"a/x": tensor("F64", [2], 0, 16)}, bytes(16)),
    "y without x": file({"a/y": tensor("F64", [1, 2], 0, 16)}, bytes(16)),
    "scalars": file(curve("a", (), ()), bytes(16)),
    "empty arrays": file(curve("a", (0,), (0, 0))),
    "more empty chains than numbers": file(curve("a", (0,), (2**40, 0))),
    "nine empty chains": file(curve("a", (0,), (9, 0))),
    "no chains": file(curve("a", (2,), (0, 2)), bytes(16)),
    "x longer than y": file(curve("a", (3,), (1, 2)), bytes(40)),
    "a huge shape": file({"a/x": tensor("F64", [2**62], 0, 2**62)}, bytes(16)),
    "a shape past 2^64": file({"a/x": tensor("F64", [2**32, 2**32], 0, 16)}, bytes(16)),
    "a negative shape": file({"a/x": tensor("F64", [-1], 0, 8)}, bytes(8)),
    "offsets backwards": file({"a/x": tensor("F64", [2], 16, 0)}, bytes(16)),
    "an overlap": file({"a/x": tensor("F64", [2], 0, 16), "a/y": tensor("F64", [1, 2], 8, 24)}, bytes(24)),
    "data cut off": file({"a/x": tensor("F64", [2], 0, 16)}, bytes(8)),
    "data left over": file({"a/x": tensor("F64", [2], 0, 16)}, bytes(99)),
    "a hostile name": file(curve("\u202e\x1b[31m"), bytes(16)),
    "half a character": file(json.dumps(curve("\ud800")), bytes(16)),
    "infinity": file(curve(), struct.pack("<dd", 0.0, float("inf"))),
    "no numbers": file(curve("a", (2,), (1, 2)), struct.pack("<dddd", *[float("nan")] * 4)),
}
