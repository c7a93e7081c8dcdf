"""Runs and events for the views."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

from tract_jupyter.runs import (
    Hook,
    MessagePiece,
    Operation,
    OperationConfig,
    OperationDefinition,
    OperationRun,
    Run,
    RunMessage,
)

HOSTILE = "</title></svg><script>alert('1')</script> & \"quotes\" \x1b[31m \u202e\x00\nnext"
START = datetime(2026, 3, 4, 12, tzinfo=UTC)
ZERO = START.timestamp()
BEFORE, AFTER = Hook


def at(seconds):
    return START + timedelta(seconds=seconds)


def op(key, hook=BEFORE, status="done", *, start=None, took=0.0, **parts):
    """The log of an operation; times are seconds since the start of the run."""
    if start is not None:
        parts |= {"started_at": ZERO + start, "finished_at": ZERO + start + took, "duration_ms": took * 1000}
    return OperationRun(operation_id=key, hook=hook, trigger="generate", status=status, **parts)


def operation(key, hook=BEFORE, *, kind="template", **config):
    """An operation that is to run."""
    return Operation(
        definition=OperationDefinition(operation_id=key, name=key, kind=kind),
        config=OperationConfig(**{"order": 1, "hooks": (hook,), **config}),
    )


def event(kind, seconds=0.0, **data):
    """An event of a run."""
    return SimpleNamespace(type=kind, at=at(seconds), data=SimpleNamespace(**data))


def message(role, content, key=None, label=None, pieces=()):
    return RunMessage(role=role, content=content, key=key, label=label, pieces=pieces)


PLAIN = (
    message("system", "Be careful.", "s"),
    *(message("assistant" if n % 2 else "user", f"turn {n}", f"h{n}") for n in range(9)),
    message("user", "Which of the three is newest?", "u"),
)
PROMPT = (
    message(
        "system", "Be careful.\n\nBe brief.", "s", "style",
        (MessagePiece(text="Be careful."), MessagePiece(text="\n\nBe brief.", label="style")),
    ),
    *PLAIN[1:-1],
    message("user", "Which of the 3 is newest?", "u", "rewrite"),
    message("developer", "Facts:\n" + "\n".join(f"fact {n}" for n in range(20)), "x", "retrieve"),
)  # fmt: skip


def run(*operations, **parts):
    """A run of 4 seconds that went well."""
    given = {
        "run_id": "7f3a9c1e55aa", "trigger": "generate", "status": "done", "profile": "research", "branch": "main",
        "started_at": START, "finished_at": at(4), "reply": "The survey.", "reply_commit": "ab" * 32,
        "root_hash": "c0ffee12" * 8, "finish_reason": "completed", "prompt": PROMPT, "plain_prompt": PLAIN, **parts,
    }  # fmt: skip
    return Run(operations=operations, **given)


FIVE = (
    op("guard", start=0.02, took=0.08, order=1, required=True, kind="guard"),
    op("retrieve", start=0.02, took=1.1, order=2, kind="rag"),
    op("style", start=0.11, took=0.3, order=10, kind="template", depends_on=("guard",)),
    op("rewrite", start=1.13, took=0.6, order=3, kind="llm", depends_on=("retrieve", "guard")),
    op("summary", AFTER, start=3.1, took=0.8, order=1, kind="llm", required=True),
)
