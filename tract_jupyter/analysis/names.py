"""Canonical dotted names: one name per object, whichever way the code reaches it."""

from __future__ import annotations

from tract_jupyter.analysis.tables.effects import derived, effects
from tract_jupyter.analysis.tables.reader import words

REACHABLE = words("os posix nt sys subprocess builtins shutil ctypes socket importlib pty gc")
"""Modules that many others import and so carry as an attribute: ``tempfile._os``, ``typing.sys``."""

_OWN_MEMBERS = frozenset({"asyncio.subprocess", "socket.socket"})
"""Names that look like a carried module and are not."""

_WELL_KNOWN = """
    os sys subprocess shutil asyncio socket pickle ctypes pathlib importlib builtins gc inspect urllib posix
    pty multiprocessing marshal runpy glob io codecs tempfile requests httpx aiohttp urllib3 yaml joblib torch
    threading logging base64 itertools sqlite3 tarfile zipfile dill cloudpickle shelve webbrowser smtplib ftplib
    telnetlib http xmlrpc ssl signal resource atexit site pkgutil pydoc zipimport traceback types typing mmap cffi
    paramiko boto3 json operator functools mock
"""

ASSUMED = {
    **{name: name for name in _WELL_KNOWN.split()},
    "np": "numpy",
    "pd": "pandas",
    "Path": "pathlib.Path",
    "get_ipython": "IPython.get_ipython",
    "tools": "tools",
    "spark": "pyspark.sql.SparkSession()",
}
"""What a name that nobody bound most likely is: an earlier cell that we were not shown imported it."""

GIVEN = {"pending": "tract_jupyter.pending()", "tract": "tract_jupyter.Tract()"}
"""What the notebook and an operation's action are given."""


@derived
def canonical(dotted: str) -> str:
    """The one name of what a dotted path leads to.

    Args:
        dotted: Such as ``tempfile._os.system``, ``posix.system`` or ``pathlib.PosixPath``.

    Returns:
        Such as ``os.system`` or ``pathlib.Path``; unchanged where nothing is known.
    """
    parts = dotted.split(".")
    for index in range(len(parts) - 1, 0, -1):
        carried = parts[index] if parts[index] == "__builtins__" else parts[index].lstrip("_")
        before = ".".join(parts[:index])
        if carried not in REACHABLE and carried != "__builtins__":
            continue
        if "()" not in before and f"{before}.{carried}" not in _OWN_MEMBERS:
            parts = [carried, *parts[index + 1 :]]
            break
    same = effects().same
    for length in range(len(parts), 0, -1):
        alias = same.get(".".join(parts[:length]))
        if alias is not None:
            return ".".join([alias, *parts[length:]])
    return ".".join(parts)
