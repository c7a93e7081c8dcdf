"""Models that each play a part, by what their context says first; and a person who answers by a rule."""

from __future__ import annotations

import copy
import threading
from typing import Any

from tests.review.fakes import FakeChannel, answering
from tests.review.scripted import call, reply
from tract_jupyter.review import Answer, declare_personal

BOSS = "boss"
"""The part of the chat's own model, which has no instructions."""


class Cast:
    """A model that replies as its part says: each instruction begins with the name of a part.

    A reply is a text, a whole response, an exception to raise, or a function of the messages that gives one of these.
    """

    def __init__(self, **parts: Any) -> None:
        self.parts = {part: list(replies) for part, replies in parts.items()}
        self.asked: dict[str, list[tuple[list[dict[str, Any]], dict[str, Any]]]] = {}
        self._lock = threading.Lock()

    def chat(self, messages: list[dict[str, Any]], **options: Any) -> Any:
        told = [one["content"] for one in messages if one["role"] == "system"]
        part = told[0].split()[0] if told else BOSS
        part = part if part in self.parts else BOSS
        with self._lock:
            self.asked.setdefault(part, []).append((copy.deepcopy(messages), options))
            replies = self.parts.get(part)
            assert replies, f"{part} has no more replies"
            given = replies.pop(0)
        if callable(given):
            given = given(messages)
        if isinstance(given, BaseException):
            raise given
        return reply(given) if isinstance(given, str) else given

    def offered(self, part: str, number: int = -1) -> set[str]:
        """The names of the tools that a part was sent with a request."""
        return {one["function"]["name"] for one in self.asked[part][number][1].get("tools") or ()}

    def told(self, part: str, number: int = -1) -> list[str]:
        """What the tools' messages of a request say."""
        return [one["content"] for one in self.asked[part][number][0] if one["role"] == "tool"]


class Person(FakeChannel):
    """A person who answers each question by a rule.

    It gives `approve`, a reason to reject, changed arguments, None to leave it open, or a function of the ticket.
    """

    def __init__(self, rule=lambda pending: "approve") -> None:
        super().__init__()
        self.rule = rule
        self.questions: list[Any] = []

    name = "a person made of code"

    def show(self, ticket) -> None:
        super().show(ticket)
        pending = ticket.pending
        if not ticket.status.is_open:
            return
        if pending not in self.questions:
            self.questions.append(pending)
        answer = self.rule(pending)
        if callable(answer):
            answer(ticket)
        elif answer is not None:
            answering(answer)(ticket)

    @property
    def titles(self) -> list[str]:
        """What was asked about, in order."""
        return [one.title for one in self.questions]

    def about(self, tool: str) -> list[Any]:
        """The questions about calls of a tool."""
        return [one for one in self.questions if getattr(one, "tool_name", "") == tool]


declare_personal(Person.name)


def allow_for_session(ticket) -> None:
    """Approve, and have the like of it happen without asking until the session ends."""
    ticket.submit(Answer("approve", {"scope": "session"}, ticket.round_id, decided_by="ada"), Person.name)


def approve(ticket) -> None:
    """Approve in a person's name."""
    ticket.submit(Answer("approve", {}, ticket.round_id, decided_by="ada"), Person.name)


def create(name: str, call_id: str, **more: Any) -> dict[str, Any]:
    """A call that creates an agent whose part has its name."""
    given = {"name": name, "instructions": f"{name} works.", "description": f"Does what {name} does.", **more}
    return call("agent_create", given, call_id)


def ask(agent: str, call_id: str, text: str = "go", **more: Any) -> dict[str, Any]:
    """A call that calls an agent."""
    return call("agent_call", {"agent": agent, "input": text, **more}, call_id)


def calls(*made: dict[str, Any]) -> dict[str, Any]:
    """A reply that makes calls."""
    return reply(None, *made)
