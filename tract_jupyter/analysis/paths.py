"""Classification of paths: inside the workspace, in a protected part of it, outside, or on another machine.

Rules classify a path only if they know the operation that *opens* it. Other strings that look like paths are text.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from enum import Enum
from pathlib import Path
from typing import Final

from tract_jupyter.analysis.tables.effects import effects
from tract_jupyter.analysis.tables.reader import words
from tract_jupyter.analysis.values import HOLE

_URL = re.compile(r"(?i)^(?!file:)[a-z][a-z0-9+.-]+://")
_DRIVE = re.compile(r"^[A-Za-z]:[\\/]|^\\\\")
_ORDINARY_HIDDEN = words("""
    .cache .ipynb_checkpoints .venv .tox .pytest_cache .mypy_cache .ruff_cache .hypothesis .gitignore .gitkeep
    .gitattributes .dockerignore .coverage .DS_Store .streamlit .dvc .dvcignore .editorconfig .keep
""")
_LONGEST = 4096
_DEVICES = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr"})


class PathLocation(Enum):
    """The place that a path leads to."""

    INSIDE = "a path inside the workspace"
    PROTECTED = "a hidden or configuration file of the workspace"
    TEMPORARY = "the temporary directory"
    OUTSIDE = "a path outside the workspace"
    STEERING = "a file that controls agents, kernels or imports"
    SECRET = "a file of secrets"  # noqa: S105 - where, not what
    REMOTE = "an address on another machine"
    UNKNOWN = "a path that is known only when it runs"


class WorkspacePaths:
    """A classifier of paths relative to a root folder. Without a root, every absolute path is outside.

    It follows symbolic links, because a link in the workspace may lead out of it. It caches its results.
    """

    def __init__(self, root: str | os.PathLike[str] | None = None) -> None:
        self.root = None if root is None else os.path.realpath(root)
        self._temporary = {os.path.realpath(tempfile.gettempdir()), os.path.realpath("/tmp")}  # noqa: S108
        self._known: dict[str, PathLocation] = {}
        self._folders: dict[str, str] = {}

    def fresh(self) -> WorkspacePaths:
        """Return a classifier with the same root and an empty cache."""
        return WorkspacePaths(self.root)

    def locate(self, text: str) -> PathLocation:
        """Classify a path as the code spells it, with ``values.HOLE`` for unknown pieces."""
        if len(text) > _LONGEST:
            return PathLocation.UNKNOWN  # no system opens it
        known = PathLocation.INSIDE if text in _DEVICES else self._known.get(text)
        if known is None:
            known = self._known[text] = self._classify(text)
        return known

    def has_file(self, text: str) -> bool:
        """Return True if a file exists at a path in the workspace."""
        return len(text) <= _LONGEST and "\0" not in text and (Path(self.root or ".") / text).is_file()

    def has_module(self, name: str) -> bool:
        """Return True if the workspace itself has a module or package of this name."""
        base = Path(self.root or ".")
        return name.isidentifier() and ((base / f"{name}.py").is_file() or (base / name).is_dir())

    def _classify(self, text: str) -> PathLocation:
        if _URL.match(text):
            return PathLocation.REMOTE
        text = re.sub(r"(?i)^file:(//(localhost(?=/))?)?", "", text)
        if text.startswith(HOLE):
            known = _protected(text.lstrip(HOLE).lstrip("/"))
            return PathLocation.UNKNOWN if known is PathLocation.INSIDE else known
        if _DRIVE.match(text) and os.name != "nt":
            return PathLocation.OUTSIDE
        absolute = text.startswith(("/", "~", "$", "%"))
        try:
            base = self.root or self._folder(".")
            real = self._real(os.path.join(base, os.path.expandvars(os.path.expanduser(text))))  # noqa: PTH111, PTH118
        except (ValueError, OSError):
            return PathLocation.OUTSIDE  # no path at all (a NUL inside), or no working directory any more
        if _within(real, base) and not (absolute and self.root is None):
            return _protected(real[len(base) :])
        is_temporary = any(_within(real, place) for place in self._temporary)
        return PathLocation.TEMPORARY if is_temporary else PathLocation.OUTSIDE

    def _real(self, path: str) -> str:
        """Return the real path like ``os.path.realpath``, with one disk access for each folder."""
        folder, name = os.path.split(path)
        if name in {"", ".", ".."}:
            return os.path.realpath(path)
        real = os.path.join(self._folder(folder), name)  # noqa: PTH118
        return os.path.realpath(real) if os.path.islink(real) else real  # noqa: PTH114

    def _folder(self, path: str) -> str:
        if path not in self._folders:
            self._folders[path] = os.path.realpath(path)
        return self._folders[path]


def _within(path: str, root: str) -> bool:
    return path == root or path.startswith(root.rstrip(os.sep) + os.sep)


def _hides_module(parts: list[str]) -> bool:
    """Return True if the next import of a standard or installed module would run this file instead."""
    if not parts or len(parts) > _PACKAGE or not parts[-1].endswith(_IMPORTED):
        return False
    module = parts[0].partition(".")[0]
    if module in effects().words.get("steering_modules", ()):
        return True
    return module in sys.stdlib_module_names and module not in _NEVER_IMPORTED


_IMPORTED: Final = (".py", ".pyc", ".so", ".pyd")
_PACKAGE: Final = 2  # parts of a path: `module.py`, or a file of the package `module`
_NEVER_IMPORTED: Final = frozenset({"__main__", "antigravity", "test", "this"})  # `test.py` is a usual name


def _protected(relative: str) -> PathLocation:
    parts = [part for part in relative.replace(os.sep, "/").split("/") if part not in {"", "."}]
    words = effects().words
    if not words.get("secret_files", frozenset()).isdisjoint(parts) or relative.endswith(
        (".pem", ".key", ".kdbx")
    ):
        return PathLocation.SECRET
    if any(
        part.startswith(".") and part not in _ORDINARY_HIDDEN and part not in {".", ".."} for part in parts
    ):
        return PathLocation.PROTECTED
    name = parts[-1] if parts else ""
    steers = name in words.get("steering_files", ()) or name.endswith(".pth") or _hides_module(parts)
    if len(parts) > 1 and not steers:
        around = "/" + "/".join(parts[:-1]) + "/"
        steers = any(f"/{folder}/" in around for folder in words.get("steering_folders", ()))
    return PathLocation.STEERING if steers else PathLocation.INSIDE
