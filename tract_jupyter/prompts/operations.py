"""Prompts for a model that writes an operation, and the template that a person begins with."""

from __future__ import annotations

import keyword
import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

WRITE_OPERATION: Final = """\
You write one operation for a notebook whose context is under version control. An operation is data: typed fields, \
which are given when it is fired, and actions, which are short pieces of Python that look at the fields, change them \
and decide. Give it by calling the tool propose_operation, once. Its arguments are parsed, checked and analysed, and \
its code is tried in a sandbox; then a person reads it, and activates it or tells you what to change.

* Write the least code that does what is asked. The person reads every line.
* The code of an action is the body of a function of `pending` and its params. `pending.fields` is a dict of the \
fields. It ends with `pending.approve()` or `pending.reject("reason")`, once.
* Give an action isolation 'sandbox' wherever the fields are all that it needs. It has no files, no network and no \
packages there: no del, no yield, no inheritance; of modules json, re, math, datetime, collections and the like.
* Only what must read the context is isolation 'kernel': `pending.tract.compile().to_dicts()` are the messages, each \
with role and content. Import within the code, no more than is needed. Start no programs, and change no files, unless \
that is what is asked.
* Types of fields and params are str, int, float, bool, list[T], dict[str, T], T | None, Literal['a', 'b'], Any.
* Only if it is asked to happen by itself, say when in fires_on; its fields are given there.
* If something is refused, put that right, and call the tool again with the whole operation."""

NO_OPERATION: Final = """\
No operation was proposed: text alone defines nothing. Call the tool propose_operation with the whole operation."""

ONE_OPERATION: Final = "not looked at: propose one operation at a time"


def writing_request(text: str, taken: Collection[str]) -> str:
    """Return the request for an operation.

    Args:
        text: the task, in the user's words.
        taken: the names of the operations that there are.
    """
    names = f"\n\nThese names are taken; another operation of such a name replaces it: {', '.join(sorted(taken))}."
    return f"Write an operation that does this:\n{text}{names if taken else ''}"


def rejected_operation(reason: str, rehearsal: str) -> str:
    """Return the message after the user rejected an operation.

    Args:
        reason: the user's words.
        rehearsal: the result of the trial in the sandbox; empty if there was none.
    """
    tried = f" What came of trying it: {rehearsal}" if rehearsal else ""
    return f"A person rejected it: {reason}\nPropose the whole operation again, with that put right.{tried}"


def refused_operation(problem: str) -> str:
    """Return the message for an invalid operation, which the user did not see."""
    return (
        f"Refused, and nobody was asked: {problem}. Propose the whole operation again, with that put right."
    )


def guided_task(name: str, description: str) -> str:
    """Return the task of an operation, for `GUIDE`."""
    about = f": {description.rstrip('. ')}" if description else ""
    return f"carry out the operation {name!r} of a notebook{about}"


def guided_fields(fields_json: str) -> str:
    """Return the field values of a firing as text, for the model that writes guidance."""
    return f"It is fired with these values: {fields_json}"


_TYPE: Final = (
    "A type by its name: str, int, float, bool, list[T], dict[str, T], T | None, Literal['a', 'b'], Any."
)
_FIELD: Final = {
    "type": "object",
    "properties": {
        "type": {"type": "string", "description": _TYPE},
        "description": {"type": "string"},
        "default": {"description": "The value if none is given; null if this is left out, too."},
        "required": {"type": "boolean", "description": "It must be given, and has no default."},
    },
    "required": ["type"],
    "additionalProperties": False,
}
_ACTION: Final = {
    "type": "object",
    "properties": {
        "description": {"type": "string", "description": "One line."},
        "params": {
            "type": "object",
            "description": "The type of each parameter, by its name.",
            "additionalProperties": {"type": "string", "description": _TYPE},
        },
        "required": {
            "type": "array",
            "items": {"type": "string"},
            "description": "Parameters that must be given.",
        },
        "defaults": {"type": "object", "description": "Default values of the others; null if left out."},
        "code": {
            "type": "string",
            "description": "The body of a Python function of `pending` and the params, not indented.",
        },
        "isolation": {
            "type": "string",
            "enum": ["sandbox", "kernel"],
            "description": "sandbox: it reaches pending.fields, approve and reject. kernel: everything.",
        },
    },
    "required": ["description", "code", "isolation"],
    "additionalProperties": False,
}
_CONDITION: Final = {
    "type": "object",
    "description": "When it fires by itself; leave it out if somebody fires it. All that is given must hold.",
    "properties": {
        "moment": {"type": "string", "enum": ["commit", "compile", "turn"]},
        "commits": {"type": "integer", "minimum": 1, "description": "At every so many commits."},
        "tokens": {
            "type": "integer",
            "minimum": 1,
            "description": "The context has so many tokens, or more.",
        },
        "content_type": {"type": "string", "description": "Of the newest message, such as tool_io."},
        "seconds": {"type": "number", "exclusiveMinimum": 0, "description": "Since it fired last."},
        "fields": {"type": "object", "description": "The values of its fields."},
        "hook": {
            "type": "string",
            "enum": ["before_main_llm", "after_main_llm"],
            "description": "Instead of a moment: in each run, before or after the model's call.",
        },
        "action": {"type": "string", "description": "At a hook: the action to do."},
        "required": {"type": "boolean", "description": "At a hook: the run fails unless it is approved."},
    },
    "additionalProperties": False,
}
PROPOSE_OPERATION: Final[Mapping[str, Any]] = {
    "type": "function",
    "function": {
        "name": "propose_operation",
        "description": "Propose the whole operation. It is checked and tried at once, and a person decides about it.",
        "parameters": {
            "type": "object",
            "properties": {
                "name": {"type": "string", "description": "Lower case, digits and _."},
                "description": {"type": "string", "description": "What it is for, in a sentence or two."},
                "fields": {
                    "type": "object",
                    "description": "What is given when it is fired, by name.",
                    "additionalProperties": _FIELD,
                },
                "actions": {
                    "type": "object",
                    "description": "What can be done about it, by name; one is usual.",
                    "additionalProperties": _ACTION,
                },
                "unhandled": {
                    "type": "string",
                    "enum": ["approve", "ask"],
                    "description": "What a firing means that no handler decides; approve if left out.",
                },
                "fires_on": _CONDITION,
                "two_stage": {
                    "type": "boolean",
                    "description": "Each firing has a model write guidance first, which a person may change; the code "
                    "finds it as pending.fields['guidance']. Left out: no model is asked.",
                },
            },
            "required": ["name", "description", "fields", "actions"],
            "additionalProperties": False,
        },
    },
}
"""The tool that a model must call which writes an operation: the dict form of an `OperationSpec`, as a JSON Schema."""

_WORDS: Final = 3  # of a text, in the name that a template has
_SMALL: Final = frozenset({"a", "all", "an", "and", "are", "at", "be", "by", "each", "every", "for", "in", "is", "it",
                           "of", "on", "or", "that", "the", "to", "with"})  # fmt: skip


def operation_template(text: str = "", name: str = "") -> str:
    """Return a `%%tract_operation` cell to start from. It defines an operation without changes.

    Args:
        text: the task.
        name: the operation's; by default derived from the text.
    """
    said = " ".join(text.split()).replace("\\", "/").replace('"""', "'''").strip('" ')
    about = f"{said[0].upper()}{said[1:]}".rstrip(".") + "." if said else "Say here what it is for."
    return f'''\
%%tract_operation {name or _name_of(text)}
"""{about}"""
texts: Annotated[list[str], "What it looks at"]   # a field: given when it is fired
found: bool = False                               # one with a default may be left out

def check(pending, strict: bool = False):
    """What the button of this action does."""
    said = str(pending.tract.compile().to_dicts())
    missing = [text for text in pending.fields["texts"] if text not in said]
    pending.fields["found"] = not missing
    if missing and strict:
        pending.reject(f"not found: {{missing}}")
    else:
        pending.approve()
'''


def _name_of(text: str) -> str:
    """Return a name made of the first words that say something."""
    words = [word for word in re.findall(r"[a-z][a-z0-9]*", text.lower()) if word not in _SMALL]
    name = "_".join(words[:_WORDS])[:40]
    return "my_operation" if not name or keyword.iskeyword(name) else name
