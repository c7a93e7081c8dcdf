"""Asking a person, and carrying out what was decided: once, exactly that, and on record.

* `review`: inbox, decisions and grants of one tract (the part `Tract.review`).
* What is shown: `request`, `request_text`, `display` (an approval binds to what was on display).
* Who is asked, and how: `reviewer`, `channel` (the protocol of a way to reach a person), `prompt`,
  `dispatch`.
* What was decided: `decision`, `gate` (every decision goes through it), `ledger` (the rows: asked, decided,
  begun, ended), `records`.
* What decides without asking: `grants` (standing approvals), `lock` and `recorded` (for runs in which nobody
  can be asked).
* What this user has approved: `trust`.

A new channel is a subclass of `NoChannel` with `personal_channel` as its decorator, which submits an `Answer` to the
`Ticket` that it was shown; `tract.reviewer.channel` holds it.

Knows what is decided only as the protocol `channel.Reviewable`. Knows `storage`, `models`, and of `analysis`
its findings.
"""

from __future__ import annotations

from tract_jupyter.review.channel import Channel, NoChannel, Reviewable, Ticket
from tract_jupyter.review.decision import Answer, Decision, Question, Subject, personal_channel
from tract_jupyter.review.request import ReviewRequest
from tract_jupyter.review.request_text import request_text

__all__ = [
    "Answer",
    "Channel",
    "Decision",
    "NoChannel",
    "Question",
    "ReviewRequest",
    "Reviewable",
    "Subject",
    "Ticket",
    "personal_channel",
    "request_text",
]
