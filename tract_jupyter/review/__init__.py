"""Review: whatever needs judgement is shown to a person, and the answer binds to what will run.

A `Question` is what is asked, frozen. The `Gate` decides it, the `Ledger` stores that, `Grants` are approvals that
stand, and a `Channel` is a way to reach the person. A new one is a subclass of `NoChannel` with `personal_channel` as
its decorator, which submits an `Answer` to the `Ticket` it was shown; `tract.reviewer.channel` holds it.

This room knows `storage` and `models`; what is decided, it knows as the protocol `Reviewable`.
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
