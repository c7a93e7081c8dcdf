"""A decision: what, with which arguments, why, by whom, over which channel, about exactly what."""

from __future__ import annotations

import getpass
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back over a channel, before anybody checked it.

    `round_id` says which showing of the request it answers: an answer to an older one does not count.
    """

    action: str
    arguments: dict[str, Any]
    round_id: str


@dataclass(frozen=True, slots=True)
class Decision:
    """An answer that was accepted: the first one of its round."""

    action: str
    arguments: dict[str, Any]
    channel: str
    fingerprint: str
    decided_by: str = field(default_factory=lambda: current_person())  # noqa: PLW0108 # it stands below
    decided_at: datetime = field(default_factory=lambda: datetime.now(UTC))

    @property
    def reason(self) -> str:
        """Why, where a reason was given."""
        return str(self.arguments.get("reason", ""))


def current_person() -> str:
    """The login name of the person at this kernel."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # no such user in this container
        return "unknown"
