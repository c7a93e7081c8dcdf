"""The agents of a session, and what the store keeps of them: a signed record of each version, and of each call."""

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
"""Characters of a name in an actor; the hash of the version covers all of it."""
_DIGITS: Final = 8
"""Of that hash: two versions with the same ones can be looked for, so there is never a second one."""


class AgentState(StrEnum):
    """What an agent is."""

    ACTIVE = "active"
    """It can be called."""
    RETIRED = "retired"
    """Nobody calls it any more; its name stays taken, and its calls can be read."""
    PAST = "past"
    """It was made in an earlier session."""


class CallState(StrEnum):
    """How far a call of an agent has come."""

    RUNNING = "running"
    WAITING = "waiting"
    """A person has to decide about one of its calls."""
    DONE = "done"
    STOPPED = "stopped"
    FAILED = "failed"
    """A request failed, or a limit ended it."""
    LEFT = "left"
    """Its process ended before it did."""

    @property
    def is_open(self) -> bool:
        """True if it can be gone on with."""
        return self is not CallState.DONE


@dataclass(eq=False)
class AgentCall:
    """One call of an agent.

    Attributes:
        agent: the name of the agent.
        number: of this call of it, from 1.
        tract_id: the tract with its conversation, on the branch `branch`.
        actor: who makes the calls of its model: `agent:`, all agents above it and itself, each with its version.
        chain: the names of these agents.
        depth: 1 if you, or your chat, called it.
        input: what it was told.
        attachments: the files that it was given, as they were named.
        limits: what it may take.
        hash: of the version that was called.
        task_hash: of what that is but for its budget.
        session: the session that it was made in.
        state: how far it has come.
        note: why it ended, if not with an answer.
        answer: what it said last.
        used: what it took: `steps`, `calls`, `tokens`, `usd`, `seconds`; while it goes on, before it was gone on with.
        began: when.
        ended: when; None while it goes on.
        process: that carries it out.
        is_unheard: whether a person had it go on, and whoever made it was not told the answer yet.
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
    meter: TurnMeter | None = field(default=None, repr=False)
    own: Any = field(default=None, repr=False)

    @property
    def branch(self) -> str:
        """The branch of its conversation."""
        return f"call-{self.number}"

    @property
    def conversation(self) -> str:
        """The name of its conversation for `Session.get_tract`."""
        return f"{self.tract_id}:{self.branch}"

    @property
    def elsewhere(self) -> str:
        """The other process in which it is under way, in words; empty if it is under way in none."""
        is_there = self.state is CallState.RUNNING and self.process != this_process()
        return process_text(self.process) if is_there else ""

    @property
    def taken(self) -> dict[str, float]:
        """What it has taken until now."""
        if self.meter is None:
            return self.used
        return {name: self.used.get(name, 0) + number for name, number in self.meter.used.items()}

    def to_dict(self) -> dict[str, Any]:
        """Return what the store keeps of it."""
        limits = {name: getattr(self.limits, name) for name in ("steps", "calls", "tokens", "usd", "seconds")}
        return {
            "agent": self.agent, "number": self.number, "tract": self.tract_id, "actor": self.actor,
            "depth": self.depth, "input": self.input, "attachments": list(self.attachments), "limits": limits,
            "hash": self.hash, "task_hash": self.task_hash, "chain": list(self.chain), "session": self.session,
            "state": self.state.value, "note": self.note, "answer": self.answer,
            "used": dict(self.used), "began": self.began.isoformat(),
            "ended": None if self.ended is None else self.ended.isoformat(), "process": self.process,
            "is_unheard": self.is_unheard,
        }  # fmt: skip

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> AgentCall:
        """Read what `to_dict` gave. What was under way was left, unless another process runs that is at it."""
        state, ended, process = CallState(data["state"]), data["ended"], data["process"]
        if state is CallState.RUNNING and (process == this_process() or not is_running(process)):
            state = CallState.LEFT
        return cls(
            agent=data["agent"], number=data["number"], tract_id=data["tract"], actor=data["actor"],
            depth=data["depth"], input=data["input"], attachments=tuple(data["attachments"]),
            limits=Allowance(**data["limits"]), hash=data["hash"],
            task_hash=data["task_hash"], chain=tuple(data["chain"]), session=data["session"],
            state=state, note=data["note"], answer=data["answer"], process=process,
            used=dict(data["used"]), began=datetime.fromisoformat(data["began"]),
            ended=None if ended is None else datetime.fromisoformat(ended), is_unheard=data["is_unheard"],
        )  # fmt: skip


@dataclass(eq=False, repr=False)
class Agent:
    """An agent as it is now.

    Attributes:
        definition: what it is.
        text: its file, as it was approved.
        path: where the file is; None if it has none any more.
        creator: the actor who made it.
        maker: the names of the agents in the chain that made it; none for one of a person, or of their chat.
        session: the session that it was made in; empty for one that was taken over from a file.
        version: 1, and one more for each update.
        state: what it is.
        making: what is known of how this version was made: the `model` that wrote it, the notebook's `cell`.
        promoted: where a promoted copy is, with what is known of its making.
        earlier: the hashes of its earlier versions.
        meter: what its calls took, and may take.
        calls: its calls in this session, the oldest first.
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
        """Its name."""
        return self.definition.name

    @property
    def hash(self) -> str:
        """The SHA-256 of its file, which an approval is about: 64 hex digits."""
        text, made = self._hashed
        if text is not self.text:  # asked for at each look at the tools
            text, made = self._hashed = (self.text, file_hash(self.text))
        return made

    @property
    def id(self) -> str:
        """Its name and version, as actors have it: a standing approval of one version counts for no other."""
        return self.id_with(self.hash)

    def id_with(self, made: str) -> str:
        """Return what actors have of it in the version of a hash."""
        return f"{self.name[:_LONGEST_SHOWN]}@{made[:_DIGITS]}"

    @property
    def kept_as(self) -> str:
        """What tells it from agents of the same name in other sessions."""
        return f"{key_of(self.name)}:{self.session}"

    @property
    def is_adopted(self) -> bool:
        """True if it was taken over from a file, and so outlives the session."""
        return not self.session

    def provenance(self, path: Path, by: str) -> dict[str, Any]:
        """Return what is noted of a copy that is promoted now: of which version, how that was made, and by whom."""
        return {
            **self.making, "path": str(path), "hash": self.hash, "creator": self.creator, "version": self.version,
            "session": self.session, "at": datetime.now(UTC).isoformat(), "by": by,
        }  # fmt: skip

    @property
    def why_blocked(self) -> str:
        """Why it cannot be called although it is active, as its file is not what was approved; empty if it is."""
        if self.path is None or self.state is not AgentState.ACTIVE:
            return ""
        again = "" if self.is_adopted else ", or agent_update makes another version, with a file anew"
        try:
            text = read_file(self.path)
        except AgentError as error:
            return (
                f"{error}. The agent {self.name!r} is blocked: a person can put the file back, or retire the agent"
                f"{again}"
            )
        if file_hash(text) == self.hash:
            return ""
        return (
            f"the file {self.path.name} is not what was approved (its hash differs), so the agent {self.name!r} is "
            f"blocked until a person has read and approved it: tract.agents.adopt({str(self.path)!r}){again}"
        )

    @property
    def edited(self) -> str:
        """What somebody has written into its file in the place of what was approved; empty if nobody has."""
        with suppress(AgentError):
            text = "" if self.path is None else read_file(self.path)
            return "" if text == self.text else text
        return ""

    def check_file(self) -> None:
        """Check that its file is still what was approved.

        Raises:
            AgentError: it was changed, or is gone.
        """
        why = self.why_blocked
        if why:
            raise AgentError("file_changed", why)

    def to_dict(self) -> dict[str, Any]:
        """Return what the store keeps of it."""
        return {
            "name": self.name, "text": self.text, "path": None if self.path is None else str(self.path),
            "creator": self.creator, "maker": list(self.maker), "session": self.session, "version": self.version,
            "state": self.state.value, "making": self.making, "promoted": self.promoted,
            "earlier": list(self.earlier),
        }  # fmt: skip

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Agent:
        """Read what `to_dict` gave.

        Raises:
            AgentError: it is something else.
        """
        try:
            return cls(
                parse_file(data["text"]), data["text"], None if data["path"] is None else Path(data["path"]),
                data["creator"], tuple(data["maker"]), data["session"], data["version"], AgentState(data["state"]),
                data["making"], data["promoted"], tuple(data["earlier"]),
            )  # fmt: skip
        except (KeyError, TypeError, ValueError) as error:
            raise AgentError("bad_file", f"what the store has of an agent cannot be read: {error}") from error


class AgentRecords:
    """The signed records of agents and of their calls. What this user has not signed is not there.

    Args:
        settings: where they are kept.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def together(self) -> AbstractContextManager[object]:
        """Have what is stored within this be stored as a whole, or not at all."""
        return self._settings.database.write()

    def check_version(self, agent: Agent) -> None:
        """Check that actors can tell an agent, as it is now, from all that they can have been before.

        Raises:
            AgentError: they cannot, so that what was allowed to one version for good would count for this one.
        """
        for one in self._read(_RECORD + key_of(agent.name)[:_LONGEST_SHOWN], Agent.from_dict):
            for made in (*one.earlier, one.hash):
                if made != agent.hash and one.id_with(made) == agent.id:
                    raise AgentError(
                        "same_digits",
                        f"this version of {agent.name!r} has the same {_DIGITS} digits as another one, {agent.id}, so "
                        "what was allowed to that one could not be told from what is allowed to this; change a word",
                    )

    def save(self, agent: Agent, what: str, actor: str) -> None:
        """Keep an agent as it is now.

        Args:
            agent: the agent.
            what: what was done with it, for the log.
            actor: who did it.

        Raises:
            StoreError: it cannot be stored.
            TrustError: it cannot be signed.
        """
        about = {"agent": agent.name, "what": what, "version": agent.version, "hash": agent.hash}
        self._settings.save(_RECORD + agent.kept_as, agent.to_dict(), about, actor)

    def save_call(self, call: AgentCall) -> None:
        """Keep a call as it is now."""
        about = {"agent": call.agent, "call": call.number, "state": call.state.value, "branch": call.branch}
        self._settings.save(
            f"{_CALL}{key_of(call.agent)}:{call.number:06}", call.to_dict(), about, call.actor
        )

    def agents(self, without: Container[str] = ()) -> list[Agent]:
        """Return the agents that are kept, by name and session; but for those whose `kept_as` is in `without`."""
        return list(self._read(_RECORD, Agent.from_dict, without))

    def calls(self, name: str | None = None) -> list[AgentCall]:
        """Return the calls of an agent that are kept, the oldest first; of all agents without a name."""
        of = "" if name is None else f"{key_of(name)}:"
        return list(self._read(_CALL + of, AgentCall.from_dict))

    def calls_of(self, agent: Agent) -> list[AgentCall]:
        """Return the kept calls of an agent, the oldest first; none of others that had its name in other sessions."""
        kept = self.calls(agent.name)
        if not agent.is_adopted:
            return [call for call in kept if call.session == agent.session]
        others = {one.session for one in self.agents() if one.name == agent.name and not one.is_adopted}
        others.discard(agent.promoted.get("session"))  # the one that it was promoted from
        return [call for call in kept if call.session not in others]

    def _read(self, prefix: str, read: Any, without: Container[str] = ()) -> Iterator[Any]:
        for row in self._settings.all():
            if row.name.removeprefix(prefix) in without:
                continue
            if row.name.startswith(prefix) and (found := self._settings.find(row.name)) and found.is_own:
                try:
                    yield read(found.values)
                except (AgentError, SpecError, TractError, KeyError, TypeError, ValueError):
                    continue  # what cannot be read is nobody's


def conversation_id(whose: str, name: str) -> str:
    """Return the id of the tract with an agent's conversations: of 32 characters at most, as each tract's is."""
    return f"agent.{key_of(name)[:_ID_LENGTH]}.{digest([whose, key_of(name)])[:8]}"
