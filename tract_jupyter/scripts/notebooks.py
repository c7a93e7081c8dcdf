"""Script notebooks: namespaces that keep their variables from script to script, in this process."""

from __future__ import annotations

import builtins
import re
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

from tract_jupyter.exceptions import ScriptFailedError, nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

USER = ""
"""The id that stands for the user's own namespace."""

MAIN = "main"
_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,63}", re.ASCII)
_MOST = 100
_Notebook = TypeVar("_Notebook")


class ScriptNotebooks:
    """The namespaces of this process, by id.

    Args:
        given: what every script finds in its namespace, such as `tools`.

    Attributes:
        user_namespace: that of the notebook's user, where there is one.
    """

    def __init__(self, given: Callable[[], Mapping[str, Any]]) -> None:
        self.user_namespace: dict[str, Any] | None = None
        self._given = given
        self._notebooks: dict[str, dict[str, Any]] = {}

    def resolved(self, notebook_id: str | None) -> str:
        """Return the id that is meant; without one, the user's own namespace, or `main` if there is none.

        Raises:
            ScriptFailedError: it is no id.
        """
        if notebook_id is None:
            return MAIN if self.user_namespace is None else USER
        return checked_id(notebook_id)

    def namespace(self, notebook_id: str, *, fresh: bool = False) -> dict[str, Any]:
        """Return the namespace of a notebook, made at its first use.

        Raises:
            ScriptFailedError: the user's own namespace was to be emptied, or there are too many.
        """
        if notebook_id == USER and self.user_namespace is not None:
            if fresh:
                raise ScriptFailedError(
                    "--fresh would empty your own namespace; name a script notebook: --notebook ID"
                )
            namespace = self.user_namespace
        else:
            namespace = self._opened(notebook_id, fresh=fresh)
        self.restore(namespace)
        return namespace

    def restore(self, namespace: dict[str, Any]) -> None:
        """Put back the names that every script finds, if a script removed them. The user's own values stay."""
        is_users = namespace is self.user_namespace
        for name, value in self._given().items():
            if not is_users:
                namespace[name] = value
            elif name != "tools":  # the extension's own is there, if the user wants it
                namespace.setdefault(name, value)

    def sizes(self) -> dict[str, int]:
        """Return the number of variables of each, by id."""
        return {notebook_id: len(self.variables(notebook_id)) for notebook_id in self._notebooks}

    def variables(self, notebook_id: str) -> dict[str, str]:
        """Return the variables of a notebook with their types, `{"rows": "list[12]"}`, but none that begins with `_`.

        Raises:
            ScriptFailedError: there is no such notebook.
        """
        given = self._given()
        return {
            name: _kind(value)
            for name, value in self._existing(notebook_id).items()
            if not name.startswith("_") and not isinstance(value, ModuleType) and given.get(name) is not value
        }

    def reset(self, notebook_id: str) -> int:
        """Forget a notebook's variables; return how many there were.

        Raises:
            ScriptFailedError: there is no such notebook.
        """
        count = len(self.variables(notebook_id))
        self._notebooks[notebook_id] = _empty()
        return count

    def create(self, notebook_id: str) -> None:
        """Make a notebook.

        Raises:
            ScriptFailedError: it exists, or its id is not valid.
        """
        if self.resolved(notebook_id) in self._notebooks:
            raise ScriptFailedError(f"there is a script notebook {notebook_id!r} already")
        self._opened(notebook_id)

    def _opened(self, notebook_id: str, *, fresh: bool = False) -> dict[str, Any]:
        if fresh or notebook_id not in self._notebooks:
            check_room(notebook_id, self._notebooks)
            self._notebooks[notebook_id] = _empty()
        return self._notebooks[notebook_id]

    def _existing(self, notebook_id: str) -> dict[str, Any]:
        return self._opened(MAIN) if notebook_id == MAIN else existing(notebook_id, self._notebooks)


def checked_id(notebook_id: str) -> str:
    """Return the id, if it is valid.

    Raises:
        ScriptFailedError: it is not valid.
    """
    if not isinstance(notebook_id, str) or not _ID.fullmatch(notebook_id):
        raise ScriptFailedError(
            f"{notebook_id!r:.80} is not a valid id of a script notebook: up to 64 letters, digits, '_', '-' and '.'"
        )
    return notebook_id


def check_room(notebook_id: str, notebooks: Collection[str]) -> None:
    """Check that there is room for one more notebook.

    Raises:
        ScriptFailedError: there are too many.
    """
    if notebook_id not in notebooks and len(notebooks) >= _MOST:
        raise ScriptFailedError(f"there are {_MOST} script notebooks already; use one of them")


def existing(notebook_id: str, notebooks: Mapping[str, _Notebook]) -> _Notebook:
    """Return the notebook of that id.

    Raises:
        ScriptFailedError: there is none.
    """
    found = notebooks.get(notebook_id)
    if found is None:
        known = ", ".join(notebooks) or "none yet"
        close = nearest(str(notebook_id), notebooks)
        raise ScriptFailedError(f"no script notebook {notebook_id!r:.80}.{close} There are: {known}")
    return found


def _empty() -> dict[str, Any]:
    return {"__name__": "__main__", "__builtins__": builtins}


def _kind(value: Any) -> str:
    """Describe a value briefly (`int`, `list[12]`, `ndarray(2, 3)`) without calling any of its code."""
    kind = type(value)
    if kind in {str, bytes, list, tuple, dict, set, frozenset}:
        return f"{kind.__name__}[{len(value)}]"
    if kind.__module__.partition(".")[0] in {"numpy", "pandas", "torch"}:
        return f"{kind.__name__}{tuple(getattr(value, 'shape', ()))}"
    return kind.__name__
