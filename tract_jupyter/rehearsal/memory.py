"""The memory of this process, which is a copy: overwrite some bytes in it.

Only pages with content are searched. Large blocks of the C library are not: they hold arrays and other large data.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import mmap
import os
import re
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    _Buffer = ctypes.Array[ctypes.c_char]

_BUDGET: Final = 2 * 1024**3  # bytes that are compared: the searched memory times the number of texts
_AT_ONCE: Final = 256 * 1024  # bytes that stay in the processor's cache while all texts are searched
_MOST_THREADS: Final = 4
_PAGE: Final = mmap.PAGESIZE
_WORD: Final = 8  # bytes of a size, and of an entry of `pagemap`
_WINDOW: Final = 256  # pages whose headers are read at once
_LARGE: Final = 1024**2  # bytes of a large block
_LONGEST_LISTING: Final = 8 * 1024**2
_OWN_MAPPING: Final = 2  # the flag, in the size of a block of the C library, for a mapping of its own
_TRIM_THRESHOLD: Final = -1  # M_TRIM_THRESHOLD
_NEVER: Final = 2**31 - 1
_MAPPING: Final = re.compile(rb"^([0-9a-f]+)-([0-9a-f]+) rw-p \S+ \S+ \S+ *(.*)$", re.MULTILINE)
_SPECIAL: Final = frozenset({b"[vvar]", b"[vsyscall]"})
_USED: Final = 0xC0  # bits 62 and 63 of an entry: swapped, present
_GUARD: Final = 0x04  # bit 58: a read is an error
_HAS_CONTENT: Final = re.compile(
    b"[%s]+" % re.escape(bytes(state for state in range(256) if state & _USED and not state & _GUARD))
)


class _Part(NamedTuple):
    start: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.start


def overwrite(texts: list[bytes]) -> None:
    """Overwrite some bytes wherever they are in the writable memory of this process, and empty the list.

    If there is more memory than `_BUDGET` allows, a part of the largest mappings is searched.
    """
    if not texts:
        return
    libc = ctypes.CDLL(None)
    libc.memmem.restype = ctypes.c_void_p
    libc.memmem.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_size_t]
    buffers = [ctypes.create_string_buffer(text, len(text)) for text in texts]
    texts.clear()
    with contextlib.suppress(AttributeError):  # another C library
        libc.mallopt(_TRIM_THRESHOLD, _NEVER)  # no memory may disappear while it is searched
    was_enabled = gc.isenabled()
    gc.disable()
    _overwrite_in(list(_chosen(_mappings(), _BUDGET // len(buffers))), buffers, libc)
    if was_enabled:
        gc.enable()
    for buffer in buffers:
        ctypes.memset(buffer, 0, len(buffer))


def _overwrite_in(parts: Sequence[_Part], buffers: Sequence[_Buffer], libc: ctypes.CDLL) -> None:
    """Overwrite the buffers' bytes in some parts of the memory, in several threads: a search has no GIL."""
    places = iter([(start, part.end) for part in parts for start in range(part.start, part.end, _AT_ONCE)])
    own = {ctypes.addressof(buffer) for buffer in buffers}

    def search() -> None:
        for start, end in places:  # the iterator of a list gives each item to one thread
            for buffer in buffers:
                size = len(buffer)
                place, last = start, min(end, start + _AT_ONCE + size - 1)
                while found := libc.memmem(place, last - place, buffer, size):
                    place = found + size
                    if found not in own:
                        ctypes.memset(found, ord("*"), size)

    threads = [
        threading.Thread(target=search) for _ in range(min(_MOST_THREADS, len(os.sched_getaffinity(0))))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
        while Path(f"/proc/self/task/{thread.native_id}").exists():  # its last instructions
            os.sched_yield()


def _chosen(mappings: Sequence[Sequence[_Part]], budget: int) -> Iterator[_Part]:
    """Yield the parts to search, the smallest mappings first, and at most `budget` bytes."""
    left = budget
    for parts in sorted(mappings, key=lambda parts: sum(part.size for part in parts)):
        for part in parts:
            if left <= 0:
                return
            yield _Part(part.start, min(part.end, part.start + left))
            left -= part.size


def _mappings() -> list[list[_Part]]:
    """Return the parts to search of each range of memory that this process can write and shares with no other."""
    listing = mmap.mmap(-1, _LONGEST_LISTING)  # shared, so not listed
    with open("/proc/self/maps", "rb", buffering=0) as file:  # noqa: PTH123 # a buffer would be listed, and disappear
        while size := file.readinto(memoryview(listing)[listing.tell() :]):
            listing.seek(size, os.SEEK_CUR)
        matches = list(_MAPPING.finditer(listing[: listing.tell()]))
    listing.close()
    ranges: list[_Part] = []
    for start, end in (
        (int(match[1], 16), int(match[2], 16)) for match in matches if match[3] not in _SPECIAL
    ):
        if ranges and ranges[-1].end == start:  # the kernel splits a block of the C library
            ranges[-1] = _Part(ranges[-1].start, end)
        else:
            ranges.append(_Part(start, end))
    with contextlib.ExitStack() as stack:
        pagemap = -1  # a read is an error
        with contextlib.suppress(OSError):
            pagemap = os.open("/proc/self/pagemap", os.O_RDONLY | os.O_CLOEXEC)
            stack.callback(os.close, pagemap)
        return [list(_parts(*each, pagemap)) for each in ranges]


def _parts(start: int, end: int, pagemap: int) -> Iterator[_Part]:
    """Yield the parts of a mapping with content, without large blocks of the C library."""
    free = start
    for page, last in _pages_with_content(start, end, pagemap):
        place = max(page, free)
        while place < last:
            block, free = _large_block(place, last, end)
            if place < block:
                yield _Part(place, block)
            place = free


def _pages_with_content(start: int, end: int, pagemap: int) -> Iterator[tuple[int, int]]:
    """Yield the ranges of a mapping whose pages were used. Unused ones have no content, and may be many."""
    try:
        states = os.pread(pagemap, (end - start) // _PAGE * _WORD, start // _PAGE * _WORD)[_WORD - 1 :: _WORD]
    except OSError:
        states = b"\x80" * ((end - start) // _PAGE)
    for match in _HAS_CONTENT.finditer(states):
        yield start + match.start() * _PAGE, start + match.end() * _PAGE


def _large_block(start: int, last: int, end: int) -> tuple[int, int]:
    """Return the first large block of the C library that begins from `start` to `last`; an empty one if there is none.

    Its first two words are 0 and its size with flags.

    Args:
        start: The address of a page.
        last: The end of the pages with content.
        end: The end of the mapping.
    """
    step = _PAGE // _WORD
    last_header = min(last, end - _LARGE)
    for first in range(start, last_header, _WINDOW * _PAGE):
        count = min(_WINDOW, (last_header - first) // _PAGE)
        words = memoryview((ctypes.c_uint64 * (count * step)).from_address(first)).cast("B").cast("Q")
        for page, header in enumerate(words[1::step].tolist()):
            if header % _PAGE == _OWN_MAPPING and header > _LARGE and words[page * step] == 0:
                block = first + page * _PAGE
                size = header - _OWN_MAPPING
                if block + size <= end:
                    return block, block + size
    return last, last
