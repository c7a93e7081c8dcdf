"""Which calls a model that reviews first may decide about. The rules ask no model, so no text can talk them over.

A call is left to it only if all of this holds; whatever is not named here is a person's:

* A model of this tract's own conversation wants it, not one of a tract below, or a script of the sandbox that it wrote,
  on the branch that it was asked on, with the usual permission of the executor (what a person set to ask stays so).
* The tool is `commit`, `annotate`, `tag` or `branch`, as it came with the package; or it fires an operation that is
  sandboxed as a whole, asks nobody by itself, has no handler and at most one action, and whose code has no finding
  above low. Nothing of this destroys anything, or reaches beyond the store.
* The call only adds to the context, in the model's own name: no instruction, nothing in the words of the person or of
  a tool, no edit, nothing hidden or brought back. All of it can be taken back (`undo`, `untag`, deleting the branch).
* All arguments are short and can be read as a whole, and every text among them is a plain note in English
  (`plain_note`), every name a plain one.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.exceptions import TractError
from tract_jupyter.models import Priority, canonical_json, parse_message
from tract_jupyter.review import worst_finding
from tract_jupyter.toolkit.callers import Permission, default_permission
from tract_jupyter.toolkit.definitions import BUILT_IN
from tract_jupyter.toolkit.plain_note import why_no_label, why_no_note, words_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from tract_jupyter.toolkit.definitions import ToolDefinition
    from tract_jupyter.toolkit.pendings import ToolQuestion

_ACTOR: Final = re.compile(r"agent(?::[A-Za-z0-9_.-]{1,64})?")
_MOST_ARGUMENTS: Final = 2_000  # characters of all arguments, as JSON
_MOST_ENTRIES: Final = 40  # values within the arguments
_MOST_TAGS: Final = 5
_HARMLESS: Final = "low"
"""The worst level of a finding in the code of an operation whose firing is left to a model."""
_RAISED: Final = {
    (Priority.NORMAL, Priority.IMPORTANT),
    (Priority.NORMAL, Priority.PINNED),
    (Priority.IMPORTANT, Priority.PINNED),
}
_OWN_TEXTS: Final = {
    "dialogue": {"content_type", "role", "text"},
    "output": {"content_type", "text", "format"},
    "reasoning": {"content_type", "text"},
}
"""The contents that a model may commit in its own name, each with the parts that it may have."""


def why_a_person(question: ToolQuestion, *, author: str) -> str:
    """Return why a call is a person's to decide about; empty if a model that reviews first may.

    Args:
        question: about the call.
        author: who wants it: the actor, or who wrote the script of the sandbox that does.
    """
    try:
        return next(filter(None, _reasons(question, author)), "")
    except TractError as error:
        return f"it cannot be carried out as it is: {error}"


def _reasons(question: ToolQuestion, author: str) -> Iterator[str]:
    tract = question.tract
    if question.acts_in is not tract:
        yield "it is a call of a tract below this one"
        return
    tool = tract.executor.get(question.tool_name)
    if tool is None or tool.name != question.tool_name or tool.name in tract.executor.locks:
        yield "its tool is locked, or not there any more"
        return
    if not _ACTOR.fullmatch(author):
        yield f"{author} is no model of this conversation"
    if tract.executor.permission is not default_permission:
        yield "you have set yourself what is asked about"
    if tract.executor.permission(tool, question.actor) is not Permission.ASK:
        yield "what it may do has changed"
    if question.branch is None or question.branch != tract.current_branch:
        yield "it was asked on another branch, or on none"
    traits = tool.traits
    if traits.destructive or traits.open_world or traits.read_only or tool.asks_itself:
        yield "its tool may destroy something, reaches beyond the store, or asks by itself"
    question.check_fields()
    question.check_current()
    yield _of_arguments(question.call_arguments)
    yield _of_tool(question, tool)


def view_of(question: ToolQuestion) -> dict[str, Any]:
    """Return what a model that reviews first is shown of a call: the arguments, and what is known from elsewhere."""
    tract = question.tract
    tool, fired = question.current_tool, question.fired
    is_unreviewed = fired is not None and fired.spec.name in tract.operations.registry.unreviewed
    call = {"tool": question.tool_name, "arguments": dict(question.call_arguments)}
    about = {
        "What the tool does": ""
        if tool is None or is_unreviewed
        else f"{tool.description} It changes the context, and that can be taken back.",
        "What it fires": "",
        "call": call,
    }
    if fired is not None:
        blocks = question.code_blocks()
        findings = [f"{one.level.value}: {one.reason}" for block in blocks for one in block.findings]
        who = (
            "a model wrote its code, and nobody has reviewed it"
            if is_unreviewed
            else "a person has approved it"
        )
        about["What it fires"] = (
            f"an operation that runs in a sandbox, where its own fields are all that it reaches; {who}. "
            f"Findings in its code: {'; '.join(findings) or 'none'}."
        )
    return about


def action_of(question: ToolQuestion) -> str:
    """Return the action by which a call is cleared: that of the operation that it fires, if it has one."""
    fired = question.fired
    return "approve" if fired is None or not fired.spec.actions else next(iter(fired.spec.actions))


def _of_tool(question: ToolQuestion, tool: ToolDefinition) -> str:
    fired = question.fired
    if fired is not None and tool.owner == f"operation:{fired.spec.name}":
        return _of_fired(question, fired)
    rule = _RULES.get(tool.name) if tool.owner == BUILT_IN else None
    if rule is None:
        return f"{tool.name} is none of the tools whose calls are left to a model"
    return rule(question.tract, question.call_arguments)


def _of_fired(question: ToolQuestion, fired: Any) -> str:
    spec = fired.spec
    if not all(action.is_sandboxed for action in spec.actions.values()):
        return "its operation runs in the kernel"
    if spec.unhandled != "approve":
        return "its operation asks a person by itself"
    if question.tract.hooks.list().get(spec.name):
        return "its operation has handlers"
    if len(spec.actions) > 1 or any(action.params for action in spec.actions.values()):
        return "its operation has several actions, or one that takes values: somebody has to choose"
    worst = worst_finding(question.code_blocks())
    if worst is not None and worst.value != _HARMLESS:
        return f"its code has a finding of level {worst.value}"
    used = _used_words(question.tract)
    return next(filter(None, (_of_value(one, used) for one in question.call_arguments.values())), "")


# --- arguments


def _of_arguments(arguments: Mapping[str, Any]) -> str:
    """Return why arguments cannot be judged as a whole; empty if they can."""
    if len(canonical_json(dict(arguments))) > _MOST_ARGUMENTS or _size(arguments) > _MOST_ENTRIES:
        return "its arguments are too long to be judged by a model"
    return ""


def _size(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + sum(map(_size, value.values()))
    return 1 + sum(map(_size, value)) if isinstance(value, list | tuple) else 1


def _of_value(value: Any, used: frozenset[str]) -> str:
    """Return why a value of a field is none that a model may clear: a number, a word, a note, or a list of these."""
    if value is None or isinstance(value, bool | int | float):
        return ""
    if isinstance(value, str):
        return _of_note(value, used)
    if isinstance(value, list | tuple):
        found = (
            "a value in it is nested" if isinstance(one, list | tuple | dict) else _of_value(one, used)
            for one in value
        )
        return next(filter(None, found), "")
    return "a value in it is nested"


def _of_note(text: str, used: frozenset[str]) -> str:
    """Return why a text is neither made of words that only name something nor a plain note."""
    return "" if not why_no_label(text, unknown=0) else why_no_note(text, used)


def _used_words(tract: Any) -> frozenset[str]:
    """Return the words that the person used in this process, without what was sent beside a message."""
    return words_of(" ".join(parse_message(text)[1] for text in tract.review.said))


def _first(*reasons: str) -> str:
    return next(filter(None, reasons), "")


def _of_labels(labels: Any) -> str:
    given = list(labels or ())
    if len(given) > _MOST_TAGS:
        return "it has many tags"
    return next(filter(None, map(why_no_label, given)), "")


# --- the context tools


def _commit(tract: Any, given: Mapping[str, Any]) -> str:
    content = given["content"]
    if given["operation"] != "append" or given["edit_target"] is not None:
        return "it changes what was said before"
    if given["metadata"] or given["generation_config"]:
        return "it comes with metadata of its own"
    kind = content.get("content_type")
    parts = _OWN_TEXTS.get(kind) if isinstance(kind, str) else None
    if parts is None or not set(content) <= parts or not isinstance(content.get("text"), str):
        return "it is no plain message of the model's own"
    if kind == "dialogue" and content.get("role") != "assistant":
        return "it speaks in the name of somebody else"
    if content.get("format", "text") not in {"text", "markdown"}:
        return "it is no plain message of the model's own"
    used = _used_words(tract)
    return _first(
        why_no_note(content["text"], used) if content["text"].strip() else "its text is empty",
        why_no_note(given["message"] or "", used),
        _of_labels(given["tags"]),
    )


def _annotate(tract: Any, given: Mapping[str, Any]) -> str:
    info = _said_here(tract, given["target_hash"])
    if info is None:
        return "what it is about is no message of the person or the model in this context"
    if (info.priority, Priority(given["priority"])) not in _RAISED:
        return "it leaves something out, brings something back, or takes back that it is kept"
    return _of_note(given["reason"], _used_words(tract))


def _tag(tract: Any, given: Mapping[str, Any]) -> str:
    if _said_here(tract, given["commit_hash"]) is None:
        return "what it is about is no message of the person or the model in this context"
    return why_no_label(given["tag"])


def _branch(tract: Any, given: Mapping[str, Any]) -> str:  # noqa: ARG001 # as the other rules
    if given["source"] is not None:
        return "it begins somewhere else than here"
    return why_no_label(given["name"])


def _said_here(tract: Any, name: str) -> Any | None:
    """Return the message that a name stands for, if the person or the model says it in the current context.

    Its priority is the one that counts here. A message of a tool or of the system is none.
    """
    commit_hash, head = tract.resolve_commit(name), tract.head
    # named, so that no policy takes it for a compile that somebody asked for
    for message in () if head is None else tract.compile(at_commit=head).messages:
        if message.commit_hash == commit_hash:
            is_said = message.content_type == "dialogue" and message.role in {"user", "assistant"}
            return message if is_said and not message.tool_calls else None
    return None


_RULES: Final[dict[str, Callable[[Any, Mapping[str, Any]], str]]] = {
    "commit": _commit,
    "annotate": _annotate,
    "tag": _tag,
    "branch": _branch,
}
"""The context tools whose calls are left to a model, each with what its arguments must be."""
