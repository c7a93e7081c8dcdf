"""Texts for a model about tool calls that did not run, or that ran with changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

TASK_CANCELLED: Final = "the task was cancelled"
TRACT_CLOSED: Final = "the tract was closed"
FAILED: Final = "an error ended the turn"
WENT_ON: Final = "the user continued with another message before it ran"
UNDECIDED: Final = "the user did not decide, and continued with another message"
APPROVED_BEFORE: Final = "it was approved, but the user continued with another message before it ran"
END_UNKNOWN: Final = "it began, but the process ended, so its outcome is unknown. Check before you repeat it"
READ_UNKNOWN: Final = (
    "its outcome is unknown: it may have begun, and the process ended. Call it again if you need it"
)
NOTHING: Final = "(no output)"
FIGURES: Final = "{count} drawn for the user in the notebook"
NOT_SENDABLE: Final = "; {count} cannot be sent to you"
"""The end of `FIGURES` if a figure has no image, or too large a one."""
LEFT_OUT: Final = (
    "Figures and axes cannot be kept, so {names} did not change. Draw them again in a script that needs them"
)
"""A note about the names that a kept script bound to figures or axes."""
VALUES_HIDDEN: Final = "the user has hidden values"
INTERRUPTED: Final = "the turn was interrupted"
WATCHED: Final = "a handler decides about the texts of results"
IMAGES_OFF: Final = "the user has switched images off"
BEGUN_BEFORE: Final = (
    "it began earlier, but the process ended, so it may have run already. Check before you approve"
)
ASKED_AGAIN: Final = "its process ended, and the resumed turn asks again"
ANSWERED_WITHOUT: Final = "its process ended, and the resumed turn answered the call without it"
APPROVED_OTHER: Final = (
    "Your approval of the earlier request does not count, because its process ended and this request differs"
)
UNSIGNED: Final = (
    "its turn was interrupted, and the stored reply with this call lacks your signature: another user may have "
    "written or changed it. Check before you approve"
)
TOOLS_CHANGED: Final = "Your tools have changed; the list of tools that you received stays the same."
NEW_IN_SCRIPTS: Final = (
    "New, and not in that list: call them from scripts, with notebook_execute. "
    "The user can add them to the list with tract.loop.offer_current_tools()."
)
NEW_LATER: Final = (
    "New, and not in that list. If you need one and cannot call it, say so: the user can add them to the list "
    "with tract.loop.offer_current_tools()."
)
REPEATED: Final = (
    "not run: you made this exact call twice in a row with the same outcome, and its result will not change. Do "
    "something else, or answer now"
)
REPEATED_AGAIN: Final = "not run: it was repeated again"
NOT_ENDED: Final = "it began and did not end, so its outcome is unknown"
NO_REASON: Final = "it was rejected, without a reason"
TOO_MANY_CHOICES: Final = "other calls were chosen too many times; make the call that you need"


def not_run(why: str) -> str:
    """Return the answer of a call that did not run, for example because of a limit or Stop."""
    return f"not run: {why}"


def ended_running(why: str) -> str:
    """Return the answer of a call that was running when the turn ended. It may have changed something."""
    return f"{why} while it ran, so its outcome is unknown. Check before you repeat it"


def ended_reading(why: str) -> str:
    """Return the answer of a read-only call that began, and whose result did not come before the turn ended."""
    return f"it began, and its outcome is unknown: {why}"


def refused(reason: str) -> str:
    """Return the answer of a call that the user refused."""
    return f"not run: the user refused it: {reason}"


def also_refused(refusal: str, why: str) -> str:
    """Return the answer of a call that was refused, if the call that the user chose instead did not run either."""
    return f"{refusal}. That call did not run either: {why}"


def changed(values: Iterable[tuple[str, str, str]]) -> str:
    """Return the note about a call that the user changed.

    Args:
        values: the name, the new value and the model's value of each changed argument.
    """
    changes = "; ".join(f"{name} = {now} (you wrote {before})" for name, now, before in values)
    return f"[The user changed the call before approving it: {changes}]"


def images_not_sent(unseen: int, total: int, why: str) -> str:
    """Return the note about images of a result that are not sent, with the reason."""
    some = f"{unseen:,} of its {total:,} images"
    which = some if unseen < total else "its image" if total == 1 else f"its {total:,} images"
    return f"[You do not see {which}: {why}]"


def over_budget(images: int, size: str) -> str:
    """Return the reason for images that exceed the budget of a turn."""
    return f"the results of one turn can send at most {images:,} image{'s' * (images > 1)} of {size} in total"


def unknown_tool(name: str, near: Iterable[str]) -> str:
    """Return the answer of a call of an unknown tool, with the nearest names."""
    names = ", ".join(near)
    return f"not run: there is no tool {name!r}." + (f" Nearest: {names}" if names else "")


def removed_tool(name: str) -> str:
    """Return the answer of a call of a tool that was removed after the model received its list."""
    return f"not run: the tool {name!r} was removed, and is no longer available"


def tools_changed(
    *,
    new: Iterable[str],
    changed: Iterable[str],
    back: Iterable[str],
    gone: Mapping[str, str],
    runs_scripts: bool,
) -> str:
    """Return the message about changed tools in the middle of a conversation.

    Args:
        new: the definitions of tools that are not in the model's list.
        changed: the new definitions of changed tools.
        back: the names of tools that are available again, unchanged.
        gone: the reason for each tool that is not available, by name.
        runs_scripts: whether the model can call tools from scripts.
    """
    how = NEW_IN_SCRIPTS if runs_scripts else NEW_LATER
    sections = [
        (how, list(new)),
        ("These have new definitions:", list(changed)),
        ("These are available again, as in the list:", list(back)),
        ("These are not available now:", [f"{name}: {why}" for name, why in gone.items()]),
    ]
    parts = ["\n".join([title, *(f"- {line}" for line in lines)]) for title, lines in sections if lines]
    return "\n\n".join([TOOLS_CHANGED, *parts])


def cut_note(shown: int, total: int, tool_call_id: str) -> str:
    """Return the end of a result that is too long to show completely."""
    return (
        f"\n[cut: {shown:,} of {total:,} characters. Read the rest: "
        f'read_result(tool_call_id="{tool_call_id}", start={shown})]'
    )
