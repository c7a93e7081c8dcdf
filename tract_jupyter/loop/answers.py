"""What a model is told about a call: cleaned, bounded, and never empty."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tract_jupyter.models import brief_repr, canonical_json, digest
from tract_jupyter.prompts import NOTHING, changed, cut_note
from tract_jupyter.toolkit import for_model

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tract_jupyter.models import AttachedFile
    from tract_jupyter.toolkit import ToolResult

LARGEST: Final = 20_000_000
"""Bytes of a result that is kept whole."""
_LONGEST_ERROR: Final = 1_500
_LEAST: Final = 500
_MEASURED: Final = frozenset({"seconds", "tokens_saved"})
# the escape sequences of terminals (ECMA-48): those with parameters, those with a text, and the short ones
_ESCAPES: Final = re.compile(
    r"\x1b\[[0-?]{0,100}[ -/]{0,10}[@-~]|\x1b[\]PX^_][^\x07\x1b]{0,2000}(?:\x07|\x1b\\)|\x1b[ -/]{0,10}[0-~]"
)
_CONTROLS: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


class CallAnswer(NamedTuple):
    """The answer to one call.

    Attributes:
        text: the whole text.
        is_error: whether it tells of a failure.
        note: what a person changed of the call.
        made: how many calls were made for it: 0 if it was not carried out; a script's calls are more.
        timeless: the text without what a run measured, such as its seconds; empty if that is all of it.
        images: the images that the model gets with it.
    """

    text: str
    is_error: bool = False
    note: str = ""
    made: int = 0
    timeless: str = ""
    images: tuple[AttachedFile, ...] = ()

    @property
    def outcome(self) -> str:
        """What makes a difference to the same call made again."""
        return digest([self.timeless or self.text, self.is_error])


class ShownAnswer(NamedTuple):
    """An answer as the model is shown it; `whole` is what it was before it was cut or cleaned, None if it was not."""

    text: str
    is_error: bool
    whole: str | None


def answer_of(result: ToolResult) -> CallAnswer:
    """Return the answer that a tool's result makes."""
    shown = for_model(result, LARGEST)
    if not shown.success:
        text = (
            shown.error if len(shown.error) <= _LONGEST_ERROR else f"{shown.error[:_LONGEST_ERROR]} … (cut)"
        )
        return CallAnswer(text, is_error=True)
    return CallAnswer(_as_text(shown.output), timeless=_timeless(shown.output), images=shown.images)


def _timeless(output: Any) -> str:
    """Return the text of what a script printed, without what differs each time that it runs; empty for the rest."""
    if not isinstance(output, dict) or not isinstance(output.get("output"), str):
        return ""
    return _as_text({name: value for name, value in output.items() if name not in _MEASURED})


def _as_text(output: Any) -> str:
    """Return the text of a result. What a script or a program printed, under `output`, is shown as it was printed."""
    if output is None:
        return ""
    if isinstance(output, dict) and isinstance(output.get("output"), str) and len(output) > 1:
        rest = {name: value for name, value in output.items() if name != "output"}
        return f"{output['output'].rstrip()}\n{json.dumps(rest, ensure_ascii=False)}".lstrip("\n")
    return output if isinstance(output, str) else json.dumps(output, ensure_ascii=False)


def shown_answer(answer: CallAnswer, tool_call_id: str, size: int) -> ShownAnswer:
    """Return an answer as it is committed, with about `size` characters at most."""
    whole = answer.text.encode("utf-8", "replace").decode()
    text = clean(whole)
    kept = whole if text != whole else None
    if len(text) > size:
        note = cut_note(size, len(text), tool_call_id)
        text, kept = text[:size] + note, text
    text = "\n\n".join(filter(None, [text if text.strip() else NOTHING, answer.note]))
    return ShownAnswer(text, answer.is_error, kept)


def clean(text: str) -> str:
    """Return a text without escape sequences, controls (also of direction) and half characters."""
    if text.isprintable():  # most are
        return text
    return _CONTROLS.sub("", _ESCAPES.sub("", text.replace("\r\n", "\n")))


def size_for(calls: int, one: int, step: int) -> int:
    """Return how many characters of each answer of a step are shown."""
    return min(one, max(_LEAST, step // max(calls, 1)))


def changes(given: Mapping[str, Any], approved: Mapping[str, Any]) -> str:
    """Return what the model is told about arguments that a person changed; empty if none were."""
    names = [name for name in {**given, **approved} if given.get(name) != approved.get(name)]
    if not names:
        return ""
    return changed((name, _brief(approved.get(name)), _brief(given.get(name))) for name in names)


def _brief(value: Any) -> str:
    text = canonical_json(value)
    return text if len(text) <= 200 else brief_repr(text)  # noqa: PLR2004 # characters
