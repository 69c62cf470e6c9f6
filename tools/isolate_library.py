#!/usr/bin/env python3
"""Makes the third-party code inside a copy of a shared library private to it.

    isolate_library.py <library> --keep <pattern> [--needed-by <other library>]

The Arrow libraries of a pyarrow wheel contain OpenSSL, libcurl, zlib and more, and export all of it. In a process that loads
another OpenSSL, functions of the two then call each other, and it crashes. This marks every defined dynamic symbol as hidden
whose name does not match the pattern and that the other library does not import: the dynamic linker passes over hidden symbols
and binds the library's own references to them, which go by number, locally. They lose the first letter of their names as well:
the linker would take a hidden symbol for a definition. Symbols that stay and are marked as unique in the process become ordinary
ones: two versions of a library must not share them. 64-bit little-endian ELF files only.
"""

import argparse
import mmap
import re
import struct

SHT_DYNSYM = 11
STV_HIDDEN = 2
STB_GLOBAL = 1
STB_GNU_UNIQUE = 10
SYMBOL_SIZE = 24


def dynamic_symbols(image):
    """(offset of the symbol in the file, name, defined) of every dynamic symbol but the first, which is null."""
    if image[:6] != b"\x7fELF\x02\x01":
        raise SystemExit("not a 64-bit little-endian ELF file")
    (table,) = struct.unpack_from("<Q", image, 0x28)
    size, count = struct.unpack_from("<HH", image, 0x3A)
    sections = [struct.unpack_from("<IIQQQQIIQQ", image, table + i * size) for i in range(count)]
    for _, kind, _, _, offset, length, link, *_ in sections:
        if kind != SHT_DYNSYM:
            continue
        strings = sections[link][4]
        for at in range(offset + SYMBOL_SIZE, offset + length, SYMBOL_SIZE):
            name, _, _, section = struct.unpack_from("<IBBH", image, at)
            start = strings + name
            yield at, image[start : image.find(b"\0", start)].decode(), section != 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("library")
    parser.add_argument("--keep", required=True)
    parser.add_argument("--needed-by")
    arguments = parser.parse_args()

    needed = set()
    if arguments.needed_by:
        with open(arguments.needed_by, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as image:
            needed = {name for _, name, defined in dynamic_symbols(image) if not defined}
    keep = re.compile(arguments.keep)
    hidden = 0
    with open(arguments.library, "r+b") as file, mmap.mmap(file.fileno(), 0) as image:
        for at, name, defined in list(dynamic_symbols(image)):
            if image[at + 4] >> 4 == STB_GNU_UNIQUE:
                image[at + 4] = STB_GLOBAL << 4 | image[at + 4] & 15
            if defined and name not in needed and not keep.search(name):
                image[at + 5] = (image[at + 5] & ~3) | STV_HIDDEN
                struct.pack_into("<I", image, at, struct.unpack_from("<I", image, at)[0] + 1)
                hidden += 1
    print(f"{arguments.library}: {hidden} symbols hidden")


if __name__ == "__main__":
    main()
