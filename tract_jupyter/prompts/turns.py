"""Texts for a model about tool calls that did not run, or that ran with changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

TASK_CANCELLED: Final = "stopped, as its task was cancelled"
TRACT_CLOSED: Final = "stopped, as the tract was closed"
FAILED: Final = "the turn was ended by an error"
WENT_ON: Final = "the person went on with something else before it was made"
UNDECIDED: Final = "nobody decided about it, and the person went on with something else"
APPROVED_BEFORE: Final = "it was approved, but the person went on with something else before it was made"
END_UNKNOWN: Final = (
    "it was begun, and the process ended meanwhile: whether it was carried out is not known. "
    "Look before you do it again"
)
READ_UNKNOWN: Final = (
    "its outcome is not known: the process ended, and it may have begun. Call it again if you need it"
)
NOTHING: Final = "(no output)"
FIGURES: Final = "{count} drawn, for the person: a notebook shows it, and you do not see it"
BEGUN_BEFORE: Final = (
    "it was begun before, and the process ended meanwhile, so it may have been done already. "
    "Look before you approve"
)
UNSIGNED: Final = (
    "its turn was left, and the stored reply that makes it does not carry your signature: somebody else may have "
    "written or changed it. Look before you approve"
)
TOOLS_CHANGED: Final = "Your tools have changed; the list of tools that you were given stays as it is."
NEW_IN_SCRIPTS: Final = (
    "New, and not in that list: call them from scripts, with notebook_execute. "
    "The user can add them to the list with tract.loop.offer_anew()."
)
NEW_LATER: Final = (
    "New, and not in that list. If you need one and cannot call it, say so: the user can add them to the list "
    "with tract.loop.offer_anew()."
)
REPEATED: Final = (
    "not run: this exact call was made twice in a row with the same outcome, and its result will not change. Do "
    "something else, or say what you know"
)
REPEATED_AGAIN: Final = "not run: it was repeated once more"
NOT_ENDED: Final = "it was begun, and did not come to its end: whether it was carried out is not known"
TOO_MANY_CHOICES: Final = "other calls were chosen too many times; make the call that you need"


def not_run(why: str) -> str:
    """Return the answer of a call that did not run, for example because of a limit or Stop."""
    return f"not run: {why}"


def ended_running(why: str) -> str:
    """Return the answer of a call that was running when the turn ended. It may have changed something."""
    return f"{why} while it ran: whether it was carried out is not known. Look before you do it again"


def ended_reading(why: str) -> str:
    """Return the answer of a read-only call that began, and whose result did not come before the turn ended."""
    return f"it began, and its outcome is not known: {why}"


def refused(reason: str) -> str:
    """Return the answer of a call that the user refused."""
    return f"not run: the person refused it: {reason}"


def also_refused(told: str, why: str) -> str:
    """Return the answer of a call if the call that was chosen in its place was not made either.

    Args:
        told: the answer about the choice.
        why: the reason for the chosen call.
    """
    return f"{told}. That call was not run either: {why}"


def changed(values: Iterable[tuple[str, str, str]]) -> str:
    """Return the note about a call that the user changed.

    Args:
        values: the name, the new value and the model's value of each changed argument.
    """
    told = "; ".join(f"{name} = {now} (you wrote {before})" for name, now, before in values)
    return f"[The person changed the call before allowing it: {told}]"


def unknown_tool(name: str, near: Iterable[str]) -> str:
    """Return the answer of a call of an unknown tool, with the nearest names."""
    names = ", ".join(near)
    return f"not run: there is no tool {name!r}." + (f" Nearest: {names}" if names else "")


def removed_tool(name: str) -> str:
    """Return the answer of a call of a tool that was removed after the model received its list."""
    return f"not run: the tool {name!r} was removed, and cannot be called any more"


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
    told = [
        (how, list(new)),
        ("These have new definitions:", list(changed)),
        ("These are available again, as in the list:", list(back)),
        ("These are not available now:", [f"{name}: {why}" for name, why in gone.items()]),
    ]
    parts = ["\n".join([title, *(f"- {line}" for line in lines)]) for title, lines in told if lines]
    return "\n\n".join([TOOLS_CHANGED, *parts])


def cut_note(shown: int, total: int, tool_call_id: str) -> str:
    """Return the end of a result that is too long to show completely."""
    return (
        f"\n[cut: {shown:,} of {total:,} characters are shown. The rest is kept: "
        f'read_result(tool_call_id="{tool_call_id}", start={shown})]'
    )
