"""The agents of a session and their stored state: one signed record per version and per call."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.agents.definition import AgentDefinition, key_of
from tract_jupyter.agents.file import file_hash, parse_file, read_file
from tract_jupyter.exceptions import AgentError, SpecError, TractError
from tract_jupyter.models import Allowance, digest
from tract_jupyter.review import is_running, process_text, this_process

if TYPE_CHECKING:
    from collections.abc import Container, Iterator
    from contextlib import AbstractContextManager

    from tract_jupyter.loop import Meter, TurnMeter
    from tract_jupyter.review import Settings

_RECORD: Final = "agent:"
_CALL: Final = "agent_call:"
_ID_LENGTH: Final = 16
_LONGEST_SHOWN: Final = 55
"""Most characters of a name in an actor. The version's hash covers the whole name."""
_DIGITS: Final = 8
"""Digits of that hash in an actor. A model could search for a second version with the same digits, so
`AgentRecords.check_version` rejects it.
"""


class AgentState(StrEnum):
    """The state of an agent."""

    ACTIVE = "active"
    """The agent can be called."""
    RETIRED = "retired"
    """The agent cannot be called. Its name stays reserved, and its calls stay readable."""
    PAST = "past"
    """An earlier session created the agent."""


class CallState(StrEnum):
    """The state of an agent call."""

    RUNNING = "running"
    WAITING = "waiting"
    """The user must decide about one of its tool calls."""
    DONE = "done"
    STOPPED = "stopped"
    FAILED = "failed"
    """A request failed, or a limit ended the call."""
    LEFT = "left"
    """The process ended before the call did."""

    @property
    def is_open(self) -> bool:
        """True if the call can be resumed."""
        return self is not CallState.DONE


_PLAIN_FIELDS: Final = (
    "agent", "number", "actor", "depth", "input", "hash", "task_hash", "session", "note", "answer", "process",
    "is_unheard",
)  # fmt: skip
"""The fields of a call that the store has as they are."""


@dataclass(eq=False)
class AgentCall:
    """One call of an agent.

    Attributes:
        agent: name of the agent.
        number: number of the call, from 1.
        tract_id: the tract with the conversation, on the branch `branch`.
        actor: actor of the model's tool calls: `agent:`, then all agents above and this agent, each with its version.
        chain: names of these agents.
        depth: 1 if you or your chat called the agent.
        input: the task from the caller.
        attachments: names of the attached files, as the caller wrote them.
        limits: limits for this call.
        hash: hash of the called version.
        task_hash: hash of this version without its budget.
        session: session in which the call was made.
        state: current state.
        note: why the call ended, if it ended without an answer.
        answer: last text of the model.
        used: usage: `steps`, `calls`, `tokens`, `usd`, `seconds`. During a run, the usage before this run.
        began: start time.
        ended: end time; None during a run.
        process: process that runs the call.
        is_unheard: True if the user resumed the call and its caller has not received the answer yet.
        through: the tract below the agents' tract from which the call came. Empty if it came from the agents' tract.
    """

    agent: str
    number: int
    tract_id: str
    actor: str
    depth: int
    input: str
    limits: Allowance
    hash: str
    task_hash: str
    chain: tuple[str, ...]
    session: str
    attachments: tuple[str, ...] = ()
    state: CallState = CallState.RUNNING
    note: str = ""
    answer: str = ""
    used: dict[str, float] = field(default_factory=dict)
    began: datetime = field(default_factory=lambda: datetime.now(UTC))
    ended: datetime | None = None
    process: str = field(default_factory=this_process)
    is_unheard: bool = False
    through: str = ""
    meter: TurnMeter | None = field(default=None, repr=False)
    own: Any = field(default=None, repr=False)

    @property
    def branch(self) -> str:
        """The branch with the conversation."""
        return f"call-{self.number}"

    @property
    def conversation(self) -> str:
        """The name of the conversation for `Session.get_tract`."""
        return f"{self.tract_id}:{self.branch}"

    @property
    def elsewhere(self) -> str:
        """The other process that runs the call, in words. Empty if no other process runs it."""
        is_there = self.state is CallState.RUNNING and self.process != this_process()
        return process_text(self.process) if is_there else ""

    @property
    def taken(self) -> dict[str, float]:
        """The usage until now."""
        if self.meter is None:
            return self.used
        return {name: self.used.get(name, 0) + number for name, number in self.meter.used.items()}

    def to_dict(self) -> dict[str, Any]:
        """Return the call as data for the store."""
        return {
            **{name: getattr(self, name) for name in _PLAIN_FIELDS},
            "tract": self.tract_id,
            "through": self.through,
            "attachments": list(self.attachments),
            "limits": self.limits.to_dict(),
            "chain": list(self.chain),
            "state": self.state.value,
            "used": dict(self.used),
            "began": self.began.isoformat(),
            "ended": None if self.ended is None else self.ended.isoformat(),
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> AgentCall:
        """Read the data from `to_dict`. A running call becomes `LEFT`, unless its other process is still alive."""
        state, ended, process = CallState(data["state"]), data["ended"], data["process"]
        if state is CallState.RUNNING and (process == this_process() or not is_running(process)):
            state = CallState.LEFT
        return cls(
            **{name: data[name] for name in _PLAIN_FIELDS},
            tract_id=data["tract"],
            through=data.get("through", ""),
            attachments=tuple(data["attachments"]),
            limits=Allowance(**data["limits"]),
            chain=tuple(data["chain"]),
            state=state,
            used=dict(data["used"]),
            began=datetime.fromisoformat(data["began"]),
            ended=None if ended is None else datetime.fromisoformat(ended),
        )


@dataclass(eq=False, repr=False)
class Agent:
    """An agent in its current state.

    Attributes:
        definition: the agent's definition.
        text: the approved text of its file.
        path: path of the file; None if the file was deleted.
        creator: the actor that created the agent.
        maker: names of the agents in the chain that created it. Empty if the user or the chat created it.
        session: session that created it. Empty for an adopted agent.
        version: starts at 1 and increases with each update.
        state: current state.
        making: origin of this version: the `model` that wrote it and the notebook's `cell`.
        promoted: place and origin of the promoted copy.
        earlier: hashes of its earlier versions.
        meter: usage and limits of all its calls.
        calls: its calls in this session, oldest first.
    """

    definition: AgentDefinition
    text: str
    path: Path | None
    creator: str
    maker: tuple[str, ...]
    session: str
    version: int = 1
    state: AgentState = AgentState.ACTIVE
    making: dict[str, str] = field(default_factory=dict)
    promoted: dict[str, Any] = field(default_factory=dict)
    earlier: tuple[str, ...] = ()
    meter: Meter | None = field(default=None, repr=False)
    calls: list[AgentCall] = field(default_factory=list, repr=False)
    _hashed: tuple[str, str] = field(default=("", ""), init=False, repr=False)

    def __repr__(self) -> str:
        return f"<Agent {self.name}, version {self.version}: {'blocked' if self.why_blocked else self.state}>"

    @property
    def name(self) -> str:
        """The agent's name."""
        return self.definition.name

    @property
    def hash(self) -> str:
        """The SHA-256 of the approved file, as 64 hex digits. Approvals refer to it."""
        text, version_hash = self._hashed
        if text is not self.text:  # cached, because each listing of the tools reads it
            text, version_hash = self._hashed = (self.text, file_hash(self.text))
        return version_hash

    @property
    def id(self) -> str:
        """Name and version for actors. A standing approval for one version does not apply to another version."""
        return self.id_with(self.hash)

    def id_with(self, version_hash: str) -> str:
        """Return the id for the version with a hash."""
        return f"{self.name[:_LONGEST_SHOWN]}@{version_hash[:_DIGITS]}"

    @property
    def storage_key(self) -> str:
        """The key in the store. It differs between agents with the same name in different sessions."""
        return f"{key_of(self.name)}:{self.session}"

    @property
    def is_adopted(self) -> bool:
        """True if the agent was adopted from a file. It then outlives the session."""
        return not self.session

    def provenance(self, path: Path, by: str) -> dict[str, Any]:
        """Return the origin of a promoted copy: version, hash, creator, origin of the version, and actor."""
        return {
            **self.making, "path": str(path), "hash": self.hash, "creator": self.creator, "version": self.version,
            "session": self.session, "at": datetime.now(UTC).isoformat(), "by": by,
        }  # fmt: skip

    @property
    def why_blocked(self) -> str:
        """Why an active agent cannot be called: its file differs from the approved text. Empty if it can be called."""
        if self.path is None or self.state is not AgentState.ACTIVE:
            return ""
        again = "" if self.is_adopted else ", or agent_update creates a new version with a new file"
        try:
            text = read_file(self.path)
        except AgentError as error:
            return (
                f"{error}. The agent {self.name!r} is blocked: the user can restore the file, or retire the agent"
                f"{again}"
            )
        if file_hash(text) == self.hash:
            return ""
        return (
            f"the file {self.path.name} differs from the approved version (by its hash), so the agent {self.name!r} is "
            f"blocked until the user reads and adopts the file: tract.agents.adopt({str(self.path)!r}){again}"
        )

    @property
    def edited(self) -> str:
        """The file's current text if it differs from the approved text, or an empty string."""
        with suppress(AgentError):
            text = "" if self.path is None else read_file(self.path)
            return "" if text == self.text else text
        return ""

    def check_file(self) -> None:
        """Check that the file still has the approved text."""
        why = self.why_blocked
        if why:
            raise AgentError("file_changed", why)

    def to_dict(self) -> dict[str, Any]:
        """Return the agent as data for the store."""
        return {
            "name": self.name, "text": self.text, "path": None if self.path is None else str(self.path),
            "creator": self.creator, "maker": list(self.maker), "session": self.session, "version": self.version,
            "state": self.state.value, "making": self.making, "promoted": self.promoted,
            "earlier": list(self.earlier),
        }  # fmt: skip

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Agent:
        """Read the data from `to_dict`."""
        try:
            return cls(
                parse_file(data["text"]), data["text"], None if data["path"] is None else Path(data["path"]),
                data["creator"], tuple(data["maker"]), data["session"], data["version"], AgentState(data["state"]),
                data["making"], data["promoted"], tuple(data["earlier"]),
            )  # fmt: skip
        except (KeyError, TypeError, ValueError) as error:
            raise AgentError("bad_file", f"the stored record of an agent cannot be read: {error}") from error


class AgentRecords:
    """The signed records of agents and their calls. Records without this user's signature are ignored."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def together(self) -> AbstractContextManager[object]:
        """Return a context manager that stores all its records or none."""
        return self._settings.database.write()

    def check_version(self, agent: Agent) -> None:
        """Check that the agent's current id differs from the id of every earlier version.

        Raises:
            AgentError: two versions have the same id. A standing approval for one would then apply to both.
        """
        for other in self._read(_RECORD + key_of(agent.name)[:_LONGEST_SHOWN], Agent.from_dict):
            for version_hash in (*other.earlier, other.hash):
                if version_hash != agent.hash and other.id_with(version_hash) == agent.id:
                    raise AgentError(
                        "same_digits",
                        f"two versions of {agent.name!r} have the same {_DIGITS} digits, {agent.id}, so an approval "
                        "of one would apply to both; change a word in the instructions",
                    )

    def save(self, agent: Agent, what: str, actor: str) -> None:
        """Store the current state of an agent."""
        about = {"agent": agent.name, "what": what, "version": agent.version, "hash": agent.hash}
        self._settings.save(_RECORD + agent.storage_key, agent.to_dict(), about, actor)

    def save_call(self, call: AgentCall) -> None:
        """Store the current state of a call."""
        about = {"agent": call.agent, "call": call.number, "state": call.state.value, "branch": call.branch}
        self._settings.save(
            f"{_CALL}{key_of(call.agent)}:{call.number:06}", call.to_dict(), about, call.actor
        )

    def agents(self, without: Container[str] = ()) -> list[Agent]:
        """Return the stored agents by name and session, except agents whose `storage_key` is in `without`."""
        return list(self._read(_RECORD, Agent.from_dict, without))

    def calls(self, name: str | None = None) -> list[AgentCall]:
        """Return the stored calls of an agent, oldest first. Without a name, return the calls of all agents."""
        of = "" if name is None else f"{key_of(name)}:"
        return list(self._read(_CALL + of, AgentCall.from_dict))

    def calls_of(self, agent: Agent) -> list[AgentCall]:
        """Return the stored calls of an agent, oldest first.

        Leave out calls of agents that had the same name in other sessions.
        """
        calls = self.calls(agent.name)
        if not agent.is_adopted:
            return [call for call in calls if call.session == agent.session]
        others = {one.session for one in self.agents() if one.name == agent.name and not one.is_adopted}
        others.discard(agent.promoted.get("session"))  # the session that promoted it
        return [call for call in calls if call.session not in others]

    def _read(self, prefix: str, read: Any, without: Container[str] = ()) -> Iterator[Any]:
        for row in self._settings.all():
            if row.name.removeprefix(prefix) in without:
                continue
            if row.name.startswith(prefix) and (setting := self._settings.find(row.name)) and setting.is_own:
                try:
                    yield read(setting.values)
                except (AgentError, SpecError, TractError, KeyError, TypeError, ValueError):
                    continue  # skip unreadable records


def conversation_id(whose: str, name: str) -> str:
    """Return the id of the tract with an agent's conversations. Like every tract id, it has at most 32 characters."""
    return f"agent.{key_of(name)[:_ID_LENGTH]}.{digest([whose, key_of(name)])[:8]}"
