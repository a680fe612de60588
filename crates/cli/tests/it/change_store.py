"""Runs SQL on a store behind the program's back: change_store.py STORE SQL TRIGGERS. Rows keep right checksums: the last
argument is the migration whose triggers once kept them right."""
import sqlite3
import struct
import sys
import zlib


def checksum(*values):
    total = 0
    for value in values:
        data = b""
        if value is None:
            head = struct.pack("<Bq", 0, 0)
        elif isinstance(value, int):
            head = struct.pack("<Bq", 1, value)
        elif isinstance(value, float):
            head = struct.pack("<Bd", 2, value)
        else:
            data = value.encode() if isinstance(value, str) else value
            head = struct.pack("<BQ", 3 if isinstance(value, str) else 4, len(data))
        total = zlib.crc32(head + data, total)
    return total


store = sqlite3.connect(sys.argv[1], timeout=30)
store.create_function("checksum", -1, checksum)
store.create_function("carried", 3, lambda kept, before, after: after if kept == before else ~after)
for trigger in sys.argv[3].split("\ncreate trigger ")[1:]:
    store.execute("create temp trigger " + trigger.partition("\nend;")[0] + "\nend")
store.executescript(sys.argv[2])
store.close()
