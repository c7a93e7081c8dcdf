"""A page for tests: the cells of a notebook, and the page's half of the protocol."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.kernels.kernel import Kernel

PATH = "birds.ipynb"


def digest(source: str) -> str:
    return hashlib.sha256(source.encode("utf-8", "surrogatepass")).hexdigest()


class FakePage:
    """A page that answers at once, in the thread that asks.

    Args:
        sources: the cells by id.
    """

    def __init__(self, sources: dict[str, str], **hello: Any) -> None:
        self.cells: list[dict[str, Any]] = [
            {"id": name, "kind": "code", "source": source, "execution_count": None, "outputs": []}
            for name, source in sources.items()
        ]
        self.got: list[dict[str, Any]] = []
        self.is_silent = self.is_closed = False
        self.before_apply: Callable[[], None] = lambda: None
        self.on_show: Callable[[dict[str, Any]], None] = lambda _: None
        self.hello = {"read_only": False, "abilities": ["read", "edit", "diff"], **hello}

    # --- the comm, as the kernel sees it

    def send(self, data: dict[str, Any]) -> None:
        self.got.append(data)
        answer = {"read": self._read, "apply": self._apply, "show": self.on_show}.get(data["type"])
        if answer is not None and not self.is_silent:
            answer(data)

    def on_msg(self, callback: Callable[[dict[str, Any]], None]) -> None:
        self._deliver = callback

    def on_close(self, callback: Callable[[dict[str, Any]], None]) -> None:
        self._on_close = callback

    def close(self) -> None:
        self.is_closed = True

    # --- the page

    def connect(self, comms: Any) -> FakePage:
        comms.targets["tract_jupyter.cells"](self, {"content": {"data": {}}})
        return self.greet()

    def connect_to(self, kernel: Kernel) -> FakePage:
        deliver = kernel.open_comm("tract_jupyter.cells", self.send)
        self.on_msg(lambda message: deliver(message["content"]["data"]))
        return self.greet()

    def greet(self) -> FakePage:
        self.say("hello", notebook=PATH, client="c1", **self.hello)
        return self

    def leave(self) -> None:
        self._on_close({})

    def say(self, kind: str, /, **content: Any) -> None:
        self.deliver({"v": 1, "type": kind, **content})

    def deliver(self, data: Any) -> None:
        self._deliver({"content": {"data": data}})

    def last(self, kind: str) -> dict[str, Any]:
        return next(one for one in reversed(self.got) if one["type"] == kind)

    @property
    def sources(self) -> dict[str, str]:
        return {cell["id"]: cell["source"] for cell in self.cells}

    def cell(self, name: str | None) -> dict[str, Any] | None:
        return next((cell for cell in self.cells if cell["id"] == name), None)

    def _read(self, data: dict[str, Any]) -> None:
        told = [
            {
                **{key: value for key, value in cell.items() if key not in {"outputs", "tract"}},
                "hash": digest(cell["source"]),
                "number": number,
                **({"outputs": cell["outputs"]} if data["outputs"] else {}),
            }
            for number, cell in enumerate(self.cells, 1)
            if data["which"] == "all" or cell["id"] in data["which"]
        ]
        self.say("cells", reply_to=data["id"], cells=told)

    def _apply(self, data: dict[str, Any]) -> None:
        self.before_apply()
        states = {edit["edit"]: self._state(edit) for edit in data["edits"]}
        fine = set(states.values()) == {"applied"}
        results = [
            {"edit": name, "state": state if state != "applied" or fine else "stale", "hash_now": None}
            for name, state in states.items()
        ]
        if fine:
            for edit in data["edits"]:
                self._make(edit, data["mark"])
        self.say("applied", reply_to=data["id"], results=results)

    def _state(self, edit: dict[str, Any]) -> str:
        cell = self.cell(edit["cell"])
        if edit["action"] == "insert":
            return "applied" if cell is None else "stale"
        if cell is None:
            return "missing"
        return "applied" if digest(cell["source"]) == edit["based_on"] else "stale"

    def _make(self, edit: dict[str, Any], mark: dict[str, str] | None) -> None:
        cell = self.cell(edit["cell"]) or {
            "id": edit["cell"], "kind": edit["kind"], "execution_count": None, "outputs": []
        }  # fmt: skip
        if edit["action"] in {"delete", "move"}:
            self.cells.remove(cell)
        if edit["action"] in {"insert", "replace"}:
            cell["source"], cell["tract"] = edit["source"], mark
        if edit["action"] in {"insert", "move"}:
            before = [one["id"] for one in self.cells].index(edit["after"]) + 1 if edit["after"] else 0
            self.cells.insert(before, cell)
