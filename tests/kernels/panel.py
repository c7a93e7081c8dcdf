"""A panel as its script in the front end sees it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.kernels.kernel import Kernel

READY_DELAYS = (0.06, 0.12, 0.25, 0.5, 1.0, 2.0)  # those of panel.js
AGAIN_DELAYS = (0.7, 1.4, 2.8)


class Panel:
    """The front end's half of the protocol of panel.js."""

    def __init__(self, kernel: Kernel, comm_id: str, state: dict[str, Any]) -> None:
        self._kernel = kernel
        self.comm_id = comm_id
        self.state = state

    @property
    def pending_id(self) -> str:
        return self.state["view"]["pending_id"]

    @property
    def status(self) -> str:
        return self.state["view"]["status"]

    def send_ready(self) -> None:
        """Say once that the script runs."""
        self._kernel.send_to_panel(self.comm_id, {"type": "ready", "page": "1"})

    def be_ready(self) -> None:
        """Say that the script runs until the kernel acknowledges it, which must happen."""
        for delay in READY_DELAYS:
            self.send_ready()
            if self._kernel.happens(lambda: self.state["ready"], delay):
                return
        self._kernel.until(lambda: self.state["ready"], "the panel's `ready` being acknowledged")

    def close_page(self) -> None:
        """Say that the browser closes the page."""
        self._kernel.send_to_panel(self.comm_id, {"type": "gone", "page": "1"})

    def send_click(self, action: str, **arguments: Any) -> None:
        """Press a button; the message is sent once."""
        self._kernel.send_to_panel(self.comm_id, self._answer(action, arguments))

    def click(self, action: str, **arguments: Any) -> None:
        """Press a button; the message is sent again until it is heard, which must happen."""
        answer = self._answer(action, arguments)

        def heard() -> bool:
            return self.state["heard"] == answer["round_id"]

        for delay in AGAIN_DELAYS:
            self._kernel.send_to_panel(self.comm_id, answer)
            if self._kernel.happens(heard, delay):
                return
        self._kernel.until(heard, f"the click on {action!r} being heard", told=self.told)

    def _answer(self, action: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """What the script sends; somebody has read to the end."""
        view = self.state["view"]
        seen = [key for keys in re.findall(r'data-line="([^"]*)"', view["body_html"]) for key in keys.split()]
        answer = {"action": action, "arguments": arguments, "seen": seen}
        return {"type": "decide", "round_id": view["round_id"], **answer}

    def until(self, status: str, seconds: float = 30.0) -> None:
        """Wait until it shows a status."""
        self._kernel.until(lambda: self.status == status, f"the panel showing {status!r}", seconds, self.told)

    def told(self) -> str:
        """What somebody before it reads now, and how far the two halves came: the reason why a click did nothing."""
        view = self.state["view"]
        names = [form["name"] for form in view["actions"]]
        facts = {
            "ready": self.state["ready"],
            "heard": self.state["heard"],
            "round": view["round_id"],
            "needs": view["needed"],
        }
        return f"the panel shows {view['status']!r} with {names}, says {view['late']!r}; {facts}"
