"""The messages of an outside agent on a cassette.

Each of our messages is a request on the cassette. Its reply is what came from the agent until our next message. In a
replay, no program starts, and the reply comes at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.exceptions import CassetteError
from tract_jupyter.llm import SentRequest
from tract_jupyter.outside.process import AgentLeft, AgentMessage

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tract_jupyter.llm import Cassette
    from tract_jupyter.outside.process import MessageQueue

_PURPOSE: Final = "outside"
_OF_THIS_MACHINE: Final[Mapping[str, Any]] = {"cwd": ".", "clientInfo": {"name": "tract_jupyter"}}


@dataclass(frozen=True, slots=True)
class TurnStopped:
    """The user stopped the turn. In a replay, this item stops it again."""

    why: str


class AgentTraffic:
    """Passes the messages of one agent process through the cassette, if one is active.

    Args:
        cassette: the cassette of the tract.
        agent: the name of the agent.
        actor: the agent of the tree that runs on it; empty for none. Several may run on one outside agent in parallel.
    """

    def __init__(self, cassette: Cassette, agent: str, actor: str = "") -> None:
        self._cassette = cassette
        self._agent = f"{agent} for {actor}" if actor else agent
        self._tape = cassette.tape
        self._message: dict[str, Any] | None = None
        self._taken: list[list[Any]] = []

    @property
    def is_active(self) -> bool:
        """True if its messages are recorded or replayed."""
        return self._tape is not None

    @property
    def is_replay(self) -> bool:
        """True if its messages come from a cassette."""
        return self.is_active and self._cassette.is_replaying

    @property
    def is_current(self) -> bool:
        """True until a recording or a replay begins or ends."""
        return self._tape is self._cassette.tape

    def draw(self, kind: str, make: Callable[[], str]) -> str:
        """Return a text that another run would not repeat; see `Cassette.draw_id`."""
        return self._cassette.draw_id({_PURPOSE: kind, "agent": self._agent}, make)

    def sent(self, message: Mapping[str, Any]) -> None:
        """Note a message of ours for the recording."""
        self.flush()
        if self.is_active and not self.is_replay:
            self._message, self._taken = _portable(message), []

    def took(self, item: object) -> None:
        """Note an item from the agent for the recording. Notes of this process are not recorded."""
        if self._message is None:
            return
        if isinstance(item, AgentMessage):
            self._taken.append(["message", dict(item.data)])
        elif isinstance(item, AgentLeft | TurnStopped):
            self._taken.append(["left" if isinstance(item, AgentLeft) else "stopped", item.why])

    def flush(self) -> None:
        """Record the last message of ours with the items after it."""
        message, self._message = self._message, None
        if message is not None and self.is_current:
            self._cassette.request(lambda: self._request(message), lambda _on_delta: self._taken, None)

    def replayed(self, message: Mapping[str, Any]) -> list[object]:
        """Return the recorded items after a message of ours.

        Raises:
            CassetteError: the cassette does not have the message, or is damaged, or its replay has ended.
        """
        if not self.is_current:
            raise CassetteError("The replay has ended, and so has the agent. Send the message again.")
        reply = self._cassette.request(lambda: self._request(_portable(message)), _refuse, None)
        try:
            return [_item(kind, data) for kind, data in reply]
        except (TypeError, ValueError):
            raise CassetteError(
                "A message of the agent on the cassette is damaged. Restore the file, or record again."
            ) from None

    def _request(self, message: dict[str, Any]) -> SentRequest:
        return SentRequest(_PURPOSE, self._agent, [message], {})


class ReplayedProcess:
    """Stands in for the program of an agent in a replay. The inbox gets the recorded messages."""

    def __init__(self, traffic: AgentTraffic, inbox: MessageQueue) -> None:
        self.is_running = True
        self._traffic = traffic
        self._inbox = inbox
        self._has_failed = False

    def send(self, message: Mapping[str, Any]) -> None:
        """Put the recorded items after a message into the inbox. After an error, do nothing."""
        if self._has_failed:
            return
        try:
            self._inbox.insert(self._traffic.replayed(message))
        except CassetteError:
            self._has_failed = True
            raise

    def close(self) -> None:
        """End the replay of this agent."""
        self.is_running = False
        self._inbox.close()


def _portable(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message without the folder and the version of this program, which may differ in a replay."""
    params = message.get("params")
    if not isinstance(params, dict):
        return dict(message)
    return {**message, "params": {name: _OF_THIS_MACHINE.get(name, value) for name, value in params.items()}}


def _item(kind: str, data: Any) -> object:
    if kind == "message" and isinstance(data, dict):
        return AgentMessage(data)
    if kind in {"left", "stopped"} and isinstance(data, str):
        return AgentLeft(data) if kind == "left" else TurnStopped(data)
    raise ValueError


def _refuse(_on_delta: object) -> Any:
    raise CassetteError("The replay has ended.")
