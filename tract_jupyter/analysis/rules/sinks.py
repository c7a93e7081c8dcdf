"""The table of operations that open a path, and how to find the path in a call."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from tract_jupyter.analysis.values import HOLE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tract_jupyter.analysis.rules.base import Reference, View


class Effect(Enum):
    """What an operation does with a path."""

    READ = "reads"
    WRITE = "writes to"
    LIST = "looks into"
    ENTER = "changes to"
    DELETE = "deletes or moves"


@dataclass(frozen=True, slots=True)
class Sink:
    """Where a call has its path (-1: the object that the method is called on) and what happens to it.

    Attributes:
        effect: What happens, unless ``mode`` says otherwise.
        position: The path's position.
        keywords: The path's names as keyword.
        mode: The position of an ``open``-like mode; None without one.
        anything: The sink is a method of an object of any kind, so only a known path counts.
    """

    effect: Effect = Effect.READ
    position: int = 0
    keywords: tuple[str, ...] = ()
    mode: int | None = None
    anything: bool = False


def _table(names: str, prefix: str, sink: Sink) -> dict[str, tuple[Sink, ...]]:
    return {f"{prefix}{name}": (sink,) for name in names.split()}


_FILE = (
    "file",
    "filename",
    "path",
    "name",
    "fname",
    "filepath_or_buffer",
    "path_or_buf",
    "io",
    "fp",
    "database",
)
_OPEN = Sink(keywords=_FILE, mode=1)
_READ = Sink(keywords=_FILE)
_WRITE = Sink(Effect.WRITE, keywords=_FILE)
_LIST = Sink(Effect.LIST, keywords=("path", "pathname", "top", "root_dir"))
_OWN_READ = Sink(position=-1)
_OWN_WRITE = Sink(Effect.WRITE, position=-1)
_OWN_LIST = Sink(Effect.LIST, position=-1)
_COPY = (Sink(keywords=("src",)), Sink(Effect.WRITE, 1, ("dst",)))

SINKS: Mapping[str, tuple[Sink, ...]] = {
    **_table("open file", "builtins.", _OPEN),
    **_table("io.FileIO io.open_code codecs.open gzip.open bz2.open lzma.open zipfile.ZipFile", "", _OPEN),
    **_table(
        "tarfile.open gzip.GzipFile bz2.BZ2File lzma.LZMAFile aiofiles.open h5py.File numpy.memmap", "", _OPEN
    ),
    **_table("getline getlines updatecache", "linecache.", _READ),
    **_table("fileinput.input tokenize.open sqlite3.connect configparser.ConfigParser().read", "", _READ),
    **_table("fromfile loadtxt genfromtxt load DataSource().open", "numpy.", _READ),
    **_table("DataSource DataSource().open", "numpy.lib.npyio.", Sink(keywords=("path",))),
    **_table("save savetxt savez savez_compressed", "numpy.", _WRITE),
    **_table(
        "csv table json excel parquet feather hdf fwf xml html stata orc sas spss", "pandas.read_", _READ
    ),
    **_table(
        "csv json excel parquet feather hdf html stata orc xml latex",
        "*.to_",
        Sink(Effect.WRITE, keywords=_FILE, anything=True),
    ),
    **_table("*.savefig *.tofile", "", Sink(Effect.WRITE, keywords=("fname", "fid"), anything=True)),
    **_table("*.extractall *.extract", "", Sink(Effect.WRITE, keywords=("path",), anything=True)),
    **_table(
        "PIL.Image.open cv2.imread imageio.imread skimage.io.imread matplotlib.pyplot.imread", "", _READ
    ),
    **_table(
        "polars.read_csv polars.read_parquet polars.scan_csv polars.scan_parquet duckdb.read_csv", "", _READ
    ),
    **_table("cv2.imwrite imageio.imwrite skimage.io.imsave matplotlib.pyplot.imsave", "", _WRITE),
    **_table("open", "os.", Sink(keywords=("path",))),
    **_table("listdir scandir walk fwalk stat lstat access readlink", "os.", _LIST),
    **_table("makedirs mkdir mkfifo mknod utime", "os.", Sink(Effect.WRITE, keywords=("name", "path"))),
    **_table("chdir", "os.", Sink(Effect.ENTER, keywords=("path",))),
    **_table("exists isfile isdir getsize getmtime", "os.path.", _LIST),
    **_table("glob iglob", "glob.", _LIST),
    **dict.fromkeys(
        [f"shutil.{name}" for name in ("copy", "copy2", "copyfile", "copytree", "copymode")], _COPY
    ),
    **dict.fromkeys(["os.link", "os.symlink"], _COPY),
    **_table("make_archive", "shutil.", _WRITE),
    **_table("unpack_archive", "shutil.", Sink(Effect.WRITE, 1, ("extract_dir",))),
    **_table("read_text read_bytes", "pathlib.Path().", _OWN_READ),
    **_table("open", "pathlib.Path().", Sink(position=-1, mode=0)),
    **_table(
        "write_text write_bytes mkdir touch symlink_to hardlink_to link_to", "pathlib.Path().", _OWN_WRITE
    ),
    **_table("iterdir glob rglob walk exists is_file is_dir stat", "pathlib.Path().", _OWN_LIST),
}
"""Operations that open a path without destroying anything; those that do are in ``destructive``."""


def paths_of(
    reference: Reference, view: View, sinks: tuple[Sink, ...] | None = None
) -> Iterator[tuple[str | None, Effect]]:
    """The paths that a call hands to a sink, with what happens to them; None for a path that is not known."""
    call = view.call_of(reference.node)
    if call is None:
        return
    for sink in sinks or SINKS[reference.symbol]:
        effect = _effect(sink, call, view)
        texts = _texts(sink, reference, call, view)
        if texts:
            yield from ((text, effect) for text in texts)
        elif texts is not None and not sink.anything:
            yield None, effect


def _texts(sink: Sink, reference: Reference, call: ast.Call, view: View) -> list[str] | None:
    if sink.position < 0:
        owner = reference.node.value if isinstance(reference.node, ast.Attribute) else None
        found = view.value(owner)
    else:
        given = view.argument(call, sink.position, *sink.keywords)
        if given is None:
            return ["."] if sink.effect is Effect.LIST else None if sink.anything or not call.args else []
        found = view.value(given)
    return [text for text in (found.texts if found else ()) if text and not text.startswith(HOLE)]


def _effect(sink: Sink, call: ast.Call, view: View) -> Effect:
    if sink.mode is None:
        return sink.effect
    mode = view.value(view.argument(call, sink.mode, "mode"))
    writes = any(letter in text for text in (mode.texts if mode else ()) for letter in "wax+")
    return Effect.WRITE if writes else sink.effect
