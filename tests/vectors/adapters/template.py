"""Templates: fn `render`."""

from __future__ import annotations

from typing import Any

from tract_jupyter.exceptions import TemplateError
from tract_jupyter.runs import ArtifactView, ErrorCode, Hook, OperationContext, RunMessage, RunTrigger
from tract_jupyter.runs.templates import render as render_in


def context_of(given: dict[str, Any], operation_id: str = "op", **more: Any) -> OperationContext:
    """A context of a vector: `messages`, `art` or `artifacts`, and any other variable."""
    given = dict(given)
    messages = tuple(RunMessage(**one) for one in given.pop("messages", None) or ())
    artifacts = {**given.pop("artifacts", {}), **given.pop("art", {})}
    made = given.pop("artByOpId", {})
    return OperationContext(
        run_id="run",
        operation_id=operation_id,
        trigger=RunTrigger.GENERATE,
        hook=Hook.BEFORE,
        messages=messages,
        artifacts={tag: view_of(tag, one) for tag, one in artifacts.items()},
        now=given.pop("now", "2026-01-02T03:04:05+00:00"),
        by_operation={
            key: one["value"] if isinstance(one, dict) and "value" in one else one
            for key, one in made.items()
        },
        variables=given,
        **more,
    )


def view_of(tag: str, given: Any) -> ArtifactView:
    """An artifact of a vector: `{value, history}`, or the value alone."""
    if not (isinstance(given, dict) and "value" in given):
        given = {"value": given}
    known = {name: given[name] for name in ("value", "history", "persistence") if name in given}
    return ArtifactView(tag=tag, **known)


def render(given: dict[str, Any]) -> dict[str, Any]:
    """A text and a context -> the output, or an error."""
    try:
        output = render_in(
            given["text"], context_of(given.get("context") or {}), strict=given.get("strict", False)
        )
    except TemplateError as error:
        return {
            "error": {
                "code": ErrorCode.TEMPLATE_RENDER.value,
                "message": error.message,
                "line": error.line,
            }
        }
    return {"output": output}
