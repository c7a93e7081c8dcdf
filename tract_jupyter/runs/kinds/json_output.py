"""JSON in what a model says: where it is, and reading it strictly (X08)."""

from __future__ import annotations

import json
import re
from typing import Any, Final, Literal, NoReturn

from tract_jupyter.runs import patterns
from tract_jupyter.runs.kinds.base import OperationFailed
from tract_jupyter.runs.safe_text import message_of
from tract_jupyter.runs.terms import ErrorCode

ParseMode = Literal["raw", "markdown_code_block", "custom_regex"]

_FENCE: Final = "```"
_LANGUAGE: Final = re.compile(r"^[\w+-]*\s")
_LONGEST_SEARCHED: Final = 200_000
_LONGEST_ERROR: Final = 512


def read_json(text: str, mode: ParseMode = "raw", pattern: str | None = None) -> Any:
    """The JSON value in a text.

    Args:
        text: what a model said.
        mode: the whole text; the first code block; or what `pattern` finds: its first group that takes part, or all.
        pattern: a regular expression, of `custom_regex`.

    Raises:
        OperationFailed: `output_parse_error`; there is none, or it is no JSON. NaN and Infinity are none.
    """
    found = _extracted(text, mode, pattern)
    try:
        return json.loads(found, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise _unreadable(f"the reply is no JSON: {error}", text) from None


def _extracted(text: str, mode: ParseMode, pattern: str | None) -> str:
    if mode == "markdown_code_block":
        return _code_block(text)
    if mode == "custom_regex":
        return _searched(text, pattern or "")
    return text


def _code_block(text: str) -> str:
    """What is in the first code block; the word after its fence, such as `json`, is none of it."""
    start = text.find(_FENCE)
    end = text.find(_FENCE, start + 3) if start >= 0 else -1
    if end < 0:
        raise _unreadable("the reply has no code block", text)
    return _LANGUAGE.sub("", text[start + 3 : end], count=1)


def _searched(text: str, pattern: str) -> str:
    try:
        found = patterns.first(pattern, text[:_LONGEST_SEARCHED])
    except OperationFailed as failed:
        raise _unreadable(failed.message, text) from None
    if found is None:
        raise _unreadable("the pattern is not found in the reply", text)
    return found


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _unreadable(message: str, text: str) -> OperationFailed:
    told = message_of(message, _LONGEST_ERROR)
    outputs = {"text": text[:1_024], "characters": len(text), "parseError": told}
    return OperationFailed(ErrorCode.OUTPUT_PARSE, told, outputs=outputs)
