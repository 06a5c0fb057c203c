"""Guest memory: anonymous memory that QEMU maps, kept and brought back without QEMU.

Most of a guest's memory has never been touched. QEMU reads all of it to find that out, when it saves and when it loads
(half a second of a short run); here the kernel says what is there, and only pages that hold something are kept:
``memory`` has their bytes one after the other, ``memory.json`` where they belong.
"""

from __future__ import annotations

import errno
import json
import mmap
import os
from collections.abc import Iterator
from pathlib import Path

NAME, PLACES = "memory", "memory.json"
PAGE = 4096
_EMPTY = bytes(PAGE)


def make(size: int) -> int:
    """Return a descriptor of so many bytes of memory that nobody has touched."""
    fd = os.memfd_create("wiretime-memory")
    os.ftruncate(fd, size)
    return fd


def _touched(fd: int) -> Iterator[tuple[int, int]]:
    """Begin and end of each part that the kernel has given pages to."""
    end = 0
    while True:
        try:
            begin = os.lseek(fd, end, os.SEEK_DATA)
        except OSError as e:
            if e.errno == errno.ENXIO:
                return
            raise
        end = os.lseek(fd, begin, os.SEEK_HOLE)
        yield begin, end


def _filled(fd: int, contents: mmap.mmap) -> Iterator[tuple[int, int]]:
    """Begin and end of each run of pages that hold anything but zeros."""
    for begin, end in _touched(fd):
        first = None
        for at in range(begin, end, PAGE):
            empty = contents[at : at + PAGE] == _EMPTY
            if first is None and not empty:
                first = at
            elif first is not None and empty:
                yield first, at
                first = None
        if first is not None:
            yield first, end


def save(fd: int, folder: Path) -> None:
    """Write what is in memory into a folder; nobody may write to it meanwhile."""
    places = []
    with mmap.mmap(fd, 0, prot=mmap.PROT_READ) as contents, (folder / NAME).open("wb") as f:
        for begin, end in _filled(fd, contents):
            places.append((begin, end - begin))
            f.write(contents[begin:end])
    (folder / PLACES).write_text(json.dumps(places))


def load(folder: Path, fd: int) -> None:
    """Bring back into untouched memory what ``save`` has written.

    Raises ``OSError`` where the files cannot be read, ``ValueError`` where they do not belong to memory of this size.
    """
    places, size, at = json.loads((folder / PLACES).read_text()), os.fstat(fd).st_size, 0
    with (folder / NAME).open("rb") as f:
        for begin, length in places:
            os.lseek(fd, begin, os.SEEK_SET)
            end = at + length
            while at < end:
                copied = os.sendfile(fd, f.fileno(), at, end - at) if begin + length <= size else 0
                if copied == 0:
                    raise ValueError(f"{folder / NAME}: not of memory of {size} bytes")
                at += copied
