"""Answers of calls as the model sees them: cleaned, bounded, and never empty."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tract_jupyter.models import brief_repr, canonical_json, digest, size_text
from tract_jupyter.prompts import (
    IMAGES_OFF,
    NOTHING,
    VALUES_HIDDEN,
    changed,
    cut_note,
    images_not_sent,
    over_budget,
)
from tract_jupyter.toolkit import for_model

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from tract_jupyter.models import AttachedFile, Attachment
    from tract_jupyter.toolkit import ToolResult

LARGEST: Final = 20_000_000
"""Maximum size in bytes of a result that is stored in full."""
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
        text: the full text.
        is_error: True if the call failed.
        note: a description of the user's changes to the call, and of images that are not sent.
        made: the number of calls: 0 if the tool did not run, more than 1 for a script's calls.
        timeless: the text without measurements such as seconds; empty if there are none.
        images: the images for the model.
    """

    text: str
    is_error: bool = False
    note: str = ""
    made: int = 0
    timeless: str = ""
    images: tuple[AttachedFile, ...] = ()

    @property
    def outcome(self) -> str:
        """A hash of the outcome, to compare it with a repeated call's."""
        return digest([self.timeless or self.text, self.is_error])


class ShownAnswer(NamedTuple):
    """An answer as the model sees it. `whole` is the text before it was cut or cleaned; None if it was not."""

    text: str
    is_error: bool
    whole: str | None


def answer_of(result: ToolResult, redact: Callable[[str], str] | None = None) -> CallAnswer:
    """Convert a tool's result into an answer.

    Args:
        result: the result.
        redact: hides values in the text. It cannot hide them in images, so they are left out.
    """
    visible = for_model(result, LARGEST)
    if not visible.success:
        error = visible.error if redact is None else redact(visible.error)
        text = error if len(error) <= _LONGEST_ERROR else f"{error[:_LONGEST_ERROR]} … (cut)"
        return CallAnswer(text, is_error=True)
    answer = CallAnswer(_as_text(visible.output), timeless=_timeless(visible.output), images=visible.images)
    if redact is None:
        return answer
    answer = answer._replace(text=redact(answer.text), timeless=redact(answer.timeless))
    return with_images(answer, (), VALUES_HIDDEN)


def with_images(answer: CallAnswer, kept: tuple[AttachedFile, ...], why: str) -> CallAnswer:
    """Return an answer with some of its images. A note tells the model why it does not see the others."""
    unseen = len(answer.images) - len(kept)
    if not unseen:
        return answer
    note = images_not_sent(unseen, len(answer.images), why)
    return answer._replace(images=kept, note="\n\n".join(filter(None, [answer.note, note])))


def _timeless(output: Any) -> str:
    """Return a script's output without its measurements; empty for other results."""
    if not isinstance(output, dict) or not isinstance(output.get("output"), str):
        return ""
    return _as_text({name: value for name, value in output.items() if name not in _MEASURED})


def _as_text(output: Any) -> str:
    """Return the text of a result. Printed output, under `output`, stays as it was printed."""
    if output is None:
        return ""
    if isinstance(output, dict) and isinstance(output.get("output"), str) and len(output) > 1:
        rest = {name: value for name, value in output.items() if name != "output"}
        return f"{output['output'].rstrip()}\n{json.dumps(rest, ensure_ascii=False)}".lstrip("\n")
    return output if isinstance(output, str) else json.dumps(output, ensure_ascii=False)


def shown_answer(answer: CallAnswer, tool_call_id: str, size: int) -> ShownAnswer:
    """Return an answer as it is committed, with at most about `size` characters."""
    full_text = answer.text.encode("utf-8", "replace").decode()
    text = clean(full_text)
    original = full_text if text != full_text else None
    if len(text) > size:
        note = cut_note(size, len(text), tool_call_id)
        text, original = text[:size] + note, text
    text = "\n\n".join(filter(None, [text if text.strip() else NOTHING, answer.note]))
    return ShownAnswer(text, answer.is_error, original)


def clean(text: str) -> str:
    """Remove escape sequences, control characters (including bidirectional ones) and lone surrogates from a text."""
    if text.isprintable():  # most are
        return text
    return _CONTROLS.sub("", _ESCAPES.sub("", text.replace("\r\n", "\n")))


def size_for(calls: int, per_answer: int, per_step: int) -> int:
    """Return the number of characters of each answer of a step that the model sees."""
    return min(per_answer, max(_LEAST, per_step // max(calls, 1)))


def changes(proposed: Mapping[str, Any], approved: Mapping[str, Any]) -> str:
    """Describe the user's changes to arguments for the model; empty if there are none."""
    names = [name for name in {**proposed, **approved} if proposed.get(name) != approved.get(name)]
    if not names:
        return ""
    return changed((name, _brief(approved.get(name)), _brief(proposed.get(name))) for name in names)


def _brief(value: Any) -> str:
    text = canonical_json(value)
    return text if len(text) <= 200 else brief_repr(text)  # noqa: PLR2004 # characters


BYTES_OF_TURN: Final = 4_000_000
"""The bytes of all images of one turn."""


class ImageBudget:
    """The images that the rest of a turn may send, in the results of its calls.

    The user did not choose these images, and each later request of the conversation sends them again.

    Args:
        most: the number of images of the turn; 0 for none.
        earlier: the images that the turn sent before it was resumed.
    """

    def __init__(self, most: int, earlier: Collection[Attachment] = ()) -> None:
        self._most = most
        self._left = most - len(earlier)
        self._bytes = BYTES_OF_TURN - sum(image.size for image in earlier)

    def fit(self, answer: CallAnswer) -> CallAnswer:
        """Return an answer with the images that may be sent, and with a note about the others."""
        kept = []
        for image in answer.images:
            if self._left > 0 and image.attachment.size <= self._bytes:
                kept.append(image)
                self._left -= 1
                self._bytes -= image.attachment.size
        why = over_budget(self._most, size_text(BYTES_OF_TURN)) if self._most > 0 else IMAGES_OFF
        return with_images(answer, tuple(kept), why)
