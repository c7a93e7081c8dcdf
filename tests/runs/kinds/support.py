"""What tests of kinds share: operations, contexts."""

from __future__ import annotations

from tract_jupyter.runs import Hook, Operation, OperationContext, RunMessage, RunTrigger, perform
from tract_jupyter.runs.kinds import Services


def operation_of(kind, params=None, key="op", artifact="made", exposures=(), **config):
    """An operation that writes an artifact."""
    written = {"tag": artifact, "exposures": exposures} if artifact else None
    return Operation.from_dict({
        "definition": {"operationId": key, "name": key, "kind": kind},
        "config": {"order": 1, "params": params or {}, "artifact": written, **config},
    })  # fmt: skip


def context_of(**changes):
    """A context with a system and a user message."""
    messages = (RunMessage(role="system", content="sys"), RunMessage(role="user", content="hello"))
    given = {
        "run_id": "r",
        "operation_id": "op",
        "trigger": RunTrigger.GENERATE,
        "hook": Hook.BEFORE,
        "messages": messages,
    }
    return OperationContext(**{**given, **changes})


def done(kind, operation, *, services=None, **context):
    """The result of an operation of a kind."""
    try:
        run = kind.prepare(operation, services or Services())
    except Exception as error:  # what cannot be prepared fails when it is run
        raised = error

        def run(_):
            raise raised

    return perform(operation, run, context_of(**context))


def value(result):
    """The value of the artifact that was written."""
    assert result.error is None, result.error
    return result.effects[0].value


def told(result):
    """The code of an error."""
    assert result.effects == ()
    return result.error.code
