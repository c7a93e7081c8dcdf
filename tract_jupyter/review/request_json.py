"""A request as JSON and back, so that a process that knows nothing of what asked can show it."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from tract_jupyter.analysis.findings import Finding, RiskLevel, Span
from tract_jupyter.exceptions import SpecError
from tract_jupyter.models.parameters import REQUIRED, Parameter, Parameters
from tract_jupyter.models.type_names import parse_type
from tract_jupyter.models.type_text import type_text
from tract_jupyter.review.fingerprint import Subject
from tract_jupyter.review.request import CodeBlock, ReviewAction, ReviewRequest, ValueRow, ValueTable

if TYPE_CHECKING:
    from collections.abc import Mapping


def request_to_dict(request: ReviewRequest) -> dict[str, Any]:
    """Everything that was shown, as data that JSON can hold."""
    return {
        **{name: getattr(request, name) for name in _TEXTS},
        "actions": [_action_to_dict(action) for action in request.actions],
        "code": [_code_to_dict(block) for block in request.code],
        "tables": [asdict(table) for table in request.tables],
        "fields": None if request.fields is None else _parameters_to_list(request.fields),
        "subject": None if request.subject is None else _subject_to_dict(request.subject),
    }


def request_from_dict(data: Mapping[str, Any]) -> ReviewRequest:
    """Read what `request_to_dict` made. Its texts are shown, never run.

    Raises:
        SpecError, KeyError, TypeError, ValueError: it is something else.
    """
    _check(data, _REQUEST, "request")
    return ReviewRequest(
        **{name: str(data[name]) for name in _TEXTS},
        actions=tuple(_action_from_dict(action) for action in data["actions"]),
        code=tuple(_code_from_dict(block) for block in data["code"]),
        tables=tuple(
            ValueTable(table["title"], tuple(ValueRow(**row) for row in table["rows"]), table["binds"])
            for table in data["tables"]
        ),
        fields=None if data["fields"] is None else _parameters_from_list("fields", data["fields"]),
        subject=None if data["subject"] is None else Subject(**data["subject"]),
    )


_ANYTHING = object()
_TEXT, _NUMBER = (str,), (int,)
_PARAMETER = {"name": _TEXT, "type": _TEXT, "description": _TEXT, "default": _ANYTHING}
_SPAN = {"line": _NUMBER, "column": _NUMBER, "end_line": _NUMBER, "end_column": _NUMBER}
_FINDING = {
    **dict.fromkeys(("code", "category", "level", "text", "reason", "remedy"), _TEXT),
    "span": _SPAN,
    "confidence": (int, float),
}
_BLOCK = {
    **dict.fromkeys(("title", "code", "header", "description", "language", "analysis_note", "binds"), _TEXT),
    "first_line": _NUMBER,
    "marked": (int, type(None)),
    "findings": [_FINDING],
}
_ACTION = {**dict.fromkeys(("name", "label", "style", "description"), _TEXT), "parameters": [_PARAMETER]}
_TABLE = {
    "title": _TEXT,
    "binds": _TEXT,
    "rows": [dict.fromkeys(("name", "type", "value", "description"), _TEXT)],
}
_SUBJECT = {**dict.fromkeys(("kind", "name", "definition_hash", "actor"), _TEXT), "values": {}, "ignored": {}}
_REQUEST = {
    **dict.fromkeys(("pending_id", "title", "summary", "why", "fingerprint", "note"), _TEXT),
    "actions": [_ACTION],
    "code": [_BLOCK],
    "tables": [_TABLE],
    "fields": [_PARAMETER],
    "subject": _SUBJECT,
}
"""What a request looks like: a tuple lists types, an empty dict stands for any dict."""
_MAY_BE_NONE = ("request.fields", "request.subject")


def _check(data: Any, shape: Any, place: str) -> None:
    """Check the shape of data that may come from anybody.

    Raises:
        TypeError: it has another one; the message says where.
    """
    if shape is _ANYTHING or (data is None and place in _MAY_BE_NONE):
        return
    kind = shape if isinstance(shape, tuple) else type(shape)
    if not isinstance(data, kind) or isinstance(data, bool):
        raise TypeError(f"{place} is of type {type(data).__name__}")
    if isinstance(shape, list):
        for part in data:
            _check(part, shape[0], place)
    elif isinstance(shape, dict):
        for name in data.keys() & shape.keys():
            _check(data[name], shape[name], f"{place}.{name}")


_CODE = (
    "title",
    "code",
    "header",
    "description",
    "language",
    "first_line",
    "marked",
    "analysis_note",
    "binds",
)
_TEXTS = ("pending_id", "title", "summary", "why", "fingerprint", "note")


def _subject_to_dict(subject: Subject) -> dict[str, Any]:
    return {**subject._asdict(), "ignored": dict(subject.ignored)}


def _action_to_dict(action: ReviewAction) -> dict[str, Any]:
    texts = {name: getattr(action, name) for name in ("name", "label", "style", "description")}
    return {**texts, "parameters": _parameters_to_list(action.parameters)}


def _action_from_dict(data: Mapping[str, Any]) -> ReviewAction:
    parameters = _parameters_from_list(data["name"], data["parameters"])
    return ReviewAction(
        data["name"], data["label"], parameters, style=data["style"], description=data["description"]
    )


def _parameters_to_list(parameters: Parameters) -> list[dict[str, Any]]:
    return [
        {
            "name": p.name,
            "type": type_text(p.annotation),
            "description": p.description,
            **({} if p.required else {"default": p.default}),
        }
        for p in parameters
    ]


def _parameters_from_list(subject: str, data: list[Mapping[str, Any]]) -> Parameters:
    return Parameters(
        subject,
        [Parameter(p["name"], _type(p["type"]), p.get("default", REQUIRED), p["description"]) for p in data],
    )


def _type(text: str) -> Any:
    """The type of that name. Of one that only the asking process knows, values are checked there."""
    try:
        return parse_type(text)
    except SpecError:
        return Any


def _code_to_dict(block: CodeBlock) -> dict[str, Any]:
    plain = {name: getattr(block, name) for name in _CODE}
    findings = [{**asdict(finding), "level": finding.level.value} for finding in block.findings]
    return {**plain, "findings": findings}


def _code_from_dict(data: Mapping[str, Any]) -> CodeBlock:
    findings = tuple(
        Finding(**{**finding, "level": RiskLevel(finding["level"]), "span": Span(**finding["span"])})
        for finding in data["findings"]
    )
    return CodeBlock(**{**data, "findings": findings})
