"""The effects of a contained copy as the result of a script: its output, its value, its error, and its notes."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.models import counted, repr_of_whole
from tract_jupyter.scripts.figures import keep_figures, png_images
from tract_jupyter.scripts.result import ScriptError, ScriptStatus
from tract_jupyter.scripts.run import ScriptRun

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tract_jupyter.rehearsal import Change, Effects, Output


def only_looked(effects: Effects) -> bool:
    """Return True if a script leaves no effects: it changed nothing, or it raised an error."""
    return effects.is_empty or is_failed(effects)


def is_failed(effects: Effects) -> bool:
    """Return True if the script itself raised an error, and the containment refused nothing."""
    return (
        effects.ending == "raised" and not effects.refused and all(call.is_answered for call in effects.calls)
    )


class RehearsedValue:
    """The value of a script's last expression. The value itself stayed in the copy, so this has only its display.

    The user has not approved a run of the code, so a front end gets only the text and images.

    Attributes:
        text: The value as text.
        data: All contents of the display by MIME type, also active ones.
    """

    def __init__(self, output: Output) -> None:
        self.text = output.text
        self.data = plain_data(output.data)

    @repr_of_whole
    def __repr__(self) -> str:
        return self.text

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        return {
            "text/plain": self.text,
            **{mime: content for mime, content in self.data.items() if mime in _STILL},
        }


_STILL: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})


def plain_data(data: Mapping[str, str | bytes]) -> dict[str, str]:
    """Return a MIME bundle as IPython sends it: binary contents as Base64."""
    return {
        mime: value if isinstance(value, str) else base64.b64encode(value).decode("ascii")
        for mime, value in data.items()
    }


def replay(run: ScriptRun, effects: Effects) -> None:
    """Give a run the output, the value and the error of its rehearsal."""
    for output in effects.outputs:
        if output.kind == "result":
            run.value = RehearsedValue(output)
        elif output.kind == "text":
            run.capture.write("stdout", output.text)
        elif output.kind in {"display", "figure"}:
            run.capture.display(output.text, plain_data(output.data))
        elif effects.ending != "raised":  # else it is the error below
            run.capture.write("stderr", output.text)
    if effects.ending == "raised":
        run.status, run.error = ScriptStatus.FAILED, _error(effects)
        run.notes = (*run.notes, "The script ran on a copy and raised this error. Nothing was changed.")
    else:
        run.status = ScriptStatus.COMPLETED


def sent_text(run: ScriptRun, effects: Effects) -> str:
    """Return all texts that a model gets if these effects are the result of the run, cut in the same way.

    The code chooses more than its output: the names in notes, the error, and the errors of tool calls.
    """
    likely = ScriptRun(
        run.script,
        backend=run.backend,
        notebook_id=run.notebook_id,
        limits=run.meter.limits,
        exchanged=run.calls.exchanged,
        author=run.author,
    )
    likely.calls.records = run.calls.records
    likely.effects, likely.is_kept = effects, True
    replay(likely, effects)
    keep_figures(likely)
    data = likely.result().to_dict()
    texts = [data["output"], data.get("result", ""), *data.get("failed_calls", ()), *data.get("notes", ())]
    return "\n".join(filter(None, texts))


def _error(effects: Effects) -> ScriptError:
    traceback = "".join(output.text for output in effects.outputs if output.kind == "error")
    name, _, message = effects.ending_note.partition(": ")
    return ScriptError(name or "Error", message, traceback or effects.ending_note)


def end(run: ScriptRun, effects: Effects) -> None:
    """Give a run of the contained backend its output, its status, and notes about refused attempts and lost files."""
    replay(run, effects)
    if effects.ending == "stopped":
        run.status = ScriptStatus.INTERRUPTED
    elif effects.ending in {"limit", "crashed"}:
        run.status = ScriptStatus.TIMED_OUT if effects.ending == "limit" else ScriptStatus.FAILED
        run.error = ScriptError("Stopped", effects.ending_note, f"Stopped: {effects.ending_note}\n")
    run.figures = png_images(effects)
    run.notes = (*run.notes, *_notes(effects))


def _notes(effects: Effects) -> Iterator[str]:
    if effects.refused:
        yield f"Refused: {'; '.join(one.action for one in effects.refused)}."
    if effects.files:
        yield f"Removed at the end of the script: {counted(len(effects.files), 'file')}. Print what you need."


def differences(effects: Effects, change: Change) -> str:
    """Return how a run in the kernel differs from its rehearsal; empty if it changed the same."""
    expected = {_name(effect) for effect in (*effects.variables, *effects.files)}
    actual = {*change.variables, *change.files}
    more, missing = sorted(actual - expected), sorted(expected - actual)
    parts = [
        f"it also changed {', '.join(more)}" if more else "",
        f"it did not change {', '.join(missing)}" if missing else "",
    ]
    text = "; ".join(filter(None, parts))
    return f"The run differs from the rehearsal: {text}." if text else ""


def _name(effect: Any) -> str:
    return str(getattr(effect, "path", None) or effect.name)
