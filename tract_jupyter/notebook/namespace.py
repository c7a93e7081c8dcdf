"""`tract` and `tools` in the user's namespace: put there, and taken away again, without touching what is the user's.

Both stand for the real thing and open the store when they are first used.
"""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tract_jupyter.notebook.session import Session


class LazyTract:
    """The notebook's tract. It opens its store at the first use; see `tract_jupyter.Tract` for what it can do."""

    __slots__ = ("_session",)

    def __init__(self, session: Session) -> None:
        object.__setattr__(self, "_session", session)

    def __getattr__(self, name: str) -> Any:
        if name.startswith(("_repr_", "_ipython_")):  # displaying it opens nothing
            raise AttributeError(name)
        return getattr(self._session.tract, name)

    def __setattr__(self, name: str, value: object) -> None:
        setattr(self._session.tract, name, value)

    def __dir__(self) -> list[str]:
        from tract_jupyter.tract import Tract

        return [name for name in dir(Tract) if not name.startswith("_")]

    def __repr__(self) -> str:
        if self._session.is_open:
            return repr(self._session.tract)
        return f"<Tract in {self._session.config.store}, not opened yet>"


class LazyTools(types.ModuleType):
    """Every tool as a function; `tools.list_tools()` names them. Opens the store at the first use."""

    def __init__(self, session: Session) -> None:
        super().__init__("tools", LazyTools.__doc__)
        self.__dict__["_session"] = session

    def __getattr__(self, name: str) -> Any:
        if name.startswith(("__", "_repr_", "_ipython_")):
            raise AttributeError(name)
        return getattr(self.__dict__["_session"].tract.tools, name)

    def __setattr__(self, name: str, value: object) -> None:
        setattr(self.__dict__["_session"].tract.tools, name, value)

    def __dir__(self) -> list[str]:
        return dir(self.__dict__["_session"].tract.tools)

    def __repr__(self) -> str:
        return "<tools: one function for each tool; tools.list_tools() names them>"


def inject(session: Session) -> tuple[dict[str, Any], list[str]]:
    """Put both names into the namespace. Returns what was put there, and the names that the user has already."""
    wanted = {session.config.tract_name: LazyTract(session), session.config.tools_name: LazyTools(session)}
    namespace = session.shell.user_ns
    taken = [name for name in wanted if name in namespace]
    put = {name: value for name, value in wanted.items() if name not in taken}
    namespace.update(put)
    return put, taken


def withdraw(session: Session, put: dict[str, Any]) -> None:
    """Take away what `inject` put, unless the user has given the name to something else since."""
    namespace = session.shell.user_ns
    for name, value in put.items():
        if namespace.get(name) is value:
            del namespace[name]
