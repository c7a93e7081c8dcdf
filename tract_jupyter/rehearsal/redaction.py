"""Secrets: removed from the copy before the code runs, and replaced in everything that comes back.

The caller knows the values. Environment variables whose names look like secrets are secrets, too.

In the memory of the copy, only pages with content are searched. Large blocks of the C library are not: they hold arrays
and other large data.
"""

from __future__ import annotations

import base64
import contextlib
import ctypes
import gc
import mmap
import os
import re
import threading
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    _Buffer = ctypes.Array[ctypes.c_char]

MASK: Final = "[secret]"
_SHORTEST: Final = 6  # characters of a text that is replaced
_SHORTEST_IN_MEMORY: Final = 12  # a shorter one may be part of something else
_NAME: Final = re.compile(
    r"(?:^|_)(?:API_?KEY|ACCESS_?KEY|SECRET|TOKEN|PASSW(?:OR)?D|PASSPHRASE|PWD|CREDENTIALS?|PRIVATE_?KEY|AUTH|PAT|DSN"
    r"|CONNECTION_?STRING|COOKIE|SESSION_?KEY|SIGNING_?KEY|ENCRYPTION_?KEY|(?:DATABASE|REDIS|MONGO\w*|POSTGRES\w*)_UR[IL])"
    r"(?:$|_)|(?:KEY|SECRET|TOKEN|PASSWORD)$",
    re.IGNORECASE,
)
_NOT_SECRET: Final = frozenset({"PWD", "OLDPWD", "SSH_AUTH_SOCK", "XAUTHORITY"})
_ENVIRONMENT: Final = 50  # field `env_start` of `/proc/self/stat`; the next one is its end


def secret_variables(environment: Mapping[str, str], secrets: Collection[str] = ()) -> dict[str, str]:
    """Return the environment variables that look like secrets by their name, or contain a known secret."""
    long = [secret for secret in secrets if len(secret) >= _SHORTEST]
    return {
        name: value
        for name, value in environment.items()
        if (_NAME.search(name) and name not in _NOT_SECRET) or any(secret in value for secret in long)
    }


def remove_secrets(secrets: Collection[str]) -> None:
    """Remove secrets from the environment and the memory of this process, which is a copy.

    Large blocks of data are not searched. The contained code can send nothing, and its output is redacted.
    """
    variables = secret_variables(os.environ, secrets)
    for name in variables:
        del os.environ[name]
    _clear_environment(variables)
    values = {*secrets, *variables.values()}
    overwrite(_shortest([raw for raw in map(_raw, values) if len(raw) >= _SHORTEST_IN_MEMORY]))


def _shortest(texts: list[bytes]) -> list[bytes]:
    """Return the texts that contain no other one. Without these, the others are incomplete."""
    found: list[bytes] = []
    for text in sorted(set(texts), key=len):
        if not any(other in text for other in found):
            found.append(text)
    return found


def _clear_environment(variables: Mapping[str, str]) -> None:
    """Overwrite variables in the block that this process got at its start, which `/proc/self/environ` shows."""
    with open("/proc/self/stat", encoding="ascii", errors="replace") as file:  # noqa: PTH123
        numbers = file.read().rpartition(")")[2].split()
    start, end = int(numbers[_ENVIRONMENT - 3]), int(numbers[_ENVIRONMENT - 2])
    if not start < end:
        return
    block = ctypes.string_at(start, end - start)
    for name, value in variables.items():
        text = _raw(f"{name}={value}")
        place = block.find(text)
        if place >= 0:
            ctypes.memset(start + place + len(name) + 1, ord("*"), len(text) - len(name) - 1)


class Redactor:
    """Replaces secrets in texts and bytes. Short secrets are ignored."""

    def __init__(self, secrets: Collection[str]) -> None:
        forms = sorted({form for secret in secrets for form in _forms(secret)}, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, forms))) if forms else None
        self._bytes = re.compile(b"|".join(map(re.escape, map(_raw, forms)))) if forms else None

    def text(self, text: str) -> str:
        """Return a text without secrets."""
        return text if self._pattern is None else self._pattern.sub(MASK, text)

    def data(self, data: bytes) -> bytes:
        """Return bytes without secrets."""
        return data if self._bytes is None else self._bytes.sub(MASK.encode(), data)

    def value(self, value: Any) -> Any:
        """Return a value of texts, bytes, tuples, mappings and dataclasses without secrets."""
        match value:
            case str():
                return self.text(value)
            case bytes():
                return self.data(value)
            case tuple():
                make: Callable[..., Any] = getattr(type(value), "_make", tuple)
                return make(map(self.value, value))
            case dict():
                return {self.text(name): self.value(item) for name, item in value.items()}
            case _ if is_dataclass(value) and not isinstance(value, type):
                changed = {each.name: self.value(getattr(value, each.name)) for each in fields(value)}
                return replace(value, **changed)
            case _:
                return value


def _forms(secret: str) -> Iterator[str]:
    """Yield a secret as it may appear: as it is, in a literal, in an address, in Base64."""
    if len(secret) < _SHORTEST:
        return
    yield secret
    yield repr(secret)[1:-1]
    raw = _raw(secret)
    yield quote(raw, safe="")
    yield repr(raw)[2:-1]
    yield raw.hex()
    for skipped in range(3):  # its place in a longer text decides about the characters
        inner = base64.b64encode(bytes(skipped) + raw).decode()
        start = -(-skipped * 8 // 6)
        end = (skipped + len(raw)) * 8 // 6
        if end - start >= _SHORTEST:
            yield inner[start:end]


def _raw(secret: str) -> bytes:
    return secret.encode("utf-8", "surrogateescape")


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

    Its first two words are 0 and its size with flags. The pages with content end at `last`, and the mapping at `end`.
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
