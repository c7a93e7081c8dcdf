"""What tests of kinds share: an operation of a kind, the context it is given, and running it."""

from __future__ import annotations

from tract_jupyter.runs import ArtifactView, Operation, OperationContext, perform
from tract_jupyter.runs.kinds import KindRegistry, Services


def operation(kind, params, id_="op", **more):
    config = {"order": 1, "params": params, **more}
    return Operation.from_dict(
        {"definition": {"operationId": id_, "name": id_, "kind": kind}, "config": config}
    )


def context(id_="op", art=None, **more):
    views = {tag: ArtifactView(tag=tag, value=value) for tag, value in (art or {}).items()}
    return OperationContext(
        run_id="r1", operation_id=id_, trigger="generate", hook="before_main_llm", artifacts=views, **more
    )


def made_by(kind, params, services=None, **given):
    """What an operation of this kind makes."""
    return kind.prepare(operation(kind.name, params), services or Services())(context(**given))


def performed(kind, params, services, **given):
    """How such an operation ends; whatever it makes becomes the artifact `made`."""
    one = operation(kind, params, artifact={"tag": "made"})
    return perform(one, KindRegistry()[kind].prepare(one, services), context(**given))


def rules(kind, params):
    """The rules that checking names."""
    return [rule for rule, _ in kind.check(operation(kind.name, params))]


def inbox(tract):
    """The pendings that wait for a person, as this process can decide them."""
    return [tract.operations.rebuild(stored) for stored in tract.review.inbox()]
