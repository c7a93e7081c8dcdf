"""Prompts for a model that writes an operation, and the user's template for one."""

from __future__ import annotations

import keyword
import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

WRITE_OPERATION: Final = """\
You write one operation for a notebook whose context is under version control. An operation is data: typed fields, \
whose values come with each firing, and actions, which are short pieces of Python that read the fields, change them \
and decide. Call the tool propose_operation once. Its arguments are parsed, checked and analyzed, and the code is \
tried in a sandbox. Then the user reads it, and activates it or requests changes.

* Write the least code for the task. The user reads every line.
* The code of an action is the body of a function of `pending` and its params. `pending.fields` is a dict of the \
fields. It ends with `pending.approve()` or `pending.reject("reason")`, once.
* Use isolation 'sandbox' for an action that needs only the fields. The sandbox has no files, no network, no packages, \
no del, no yield and no inheritance. It has json, re, math, datetime, collections and similar modules.
* Use isolation 'kernel' only for code that must read the context: `pending.tract.compile().to_dicts()` are the \
messages, each with role and content. Import inside the code, no more than necessary. Start no programs and change no \
files, unless the task requires it.
* Types of fields and params are str, int, float, bool, list[T], dict[str, T], T | None, Literal['a', 'b'], Any.
* Set fires_on, with its field values, only if the task asks for automatic firing.
* If a proposal is refused, correct it and call the tool again with the whole operation."""

NO_OPERATION: Final = """\
No operation was proposed: text alone defines nothing. Call the tool propose_operation with the whole operation."""

ONE_OPERATION: Final = "not checked: propose one operation at a time"


def writing_request(text: str, taken: Collection[str]) -> str:
    """Return the request for an operation."""
    names = f"\n\nNames in use (a new operation replaces the old one): {', '.join(sorted(taken))}."
    return f"Write an operation that does this:\n{text}{names if taken else ''}"


def rejected_operation(reason: str, rehearsal: str) -> str:
    """Return the message after the user rejected an operation."""
    tried = f" Result of the rehearsal: {rehearsal}" if rehearsal else ""
    return f"The user rejected it: {reason}\nCorrect that, and propose the whole operation again.{tried}"


def refused_operation(problem: str) -> str:
    """Return the message for an invalid operation, which the user did not see."""
    return f"Refused before the user saw it: {problem}. Correct that, and propose the whole operation again."


def guided_task(name: str, description: str) -> str:
    """Return the task of an operation, for `GUIDE`."""
    about = f": {description.rstrip('. ')}" if description else ""
    return f"carry out the operation {name!r} of a notebook{about}"


def guided_fields(fields_json: str) -> str:
    """Return the field values of a firing as text, for the model that writes guidance."""
    return f"The field values: {fields_json}"


_TYPE: Final = "A type name: str, int, float, bool, list[T], dict[str, T], T | None, Literal['a', 'b'], Any."
_FIELD: Final = {
    "type": "object",
    "properties": {
        "type": {"type": "string", "description": _TYPE},
        "description": {"type": "string"},
        "default": {"description": "The value if the caller passes none. Default: null."},
        "required": {"type": "boolean", "description": "The caller must pass it."},
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
            "description": "The type of each parameter, by name.",
            "additionalProperties": {"type": "string", "description": _TYPE},
        },
        "required": {
            "type": "array",
            "items": {"type": "string"},
            "description": "Parameters without a default.",
        },
        "defaults": {"type": "object", "description": "Defaults of the others; null if omitted."},
        "code": {
            "type": "string",
            "description": "The body of a Python function of `pending` and the params, not indented.",
        },
        "isolation": {
            "type": "string",
            "enum": ["sandbox", "kernel"],
            "description": "sandbox: only pending.fields, approve and reject. kernel: everything.",
        },
    },
    "required": ["description", "code", "isolation"],
    "additionalProperties": False,
}
_CONDITION: Final = {
    "type": "object",
    "description": "The condition for automatic firing, if any. All its parts must hold.",
    "properties": {
        "moment": {"type": "string", "enum": ["commit", "compile", "turn"]},
        "commits": {"type": "integer", "minimum": 1, "description": "At every Nth commit."},
        "tokens": {
            "type": "integer",
            "minimum": 1,
            "description": "The context has at least N tokens.",
        },
        "content_type": {"type": "string", "description": "Of the newest message, such as tool_io."},
        "seconds": {"type": "number", "exclusiveMinimum": 0, "description": "Since the last firing."},
        "fields": {"type": "object", "description": "The field values."},
        "hook": {
            "type": "string",
            "enum": ["before_main_llm", "after_main_llm"],
            "description": "Instead of a moment: in each run, before or after the model's call.",
        },
        "action": {"type": "string", "description": "At a hook: the action to run."},
        "required": {"type": "boolean", "description": "At a hook: the run fails without approval."},
    },
    "additionalProperties": False,
}
PROPOSE_OPERATION: Final[Mapping[str, Any]] = {
    "type": "function",
    "function": {
        "name": "propose_operation",
        "description": "Propose the whole operation. It is checked and tried at once, and the user decides.",
        "parameters": {
            "type": "object",
            "properties": {
                "name": {"type": "string", "description": "Lower case, digits and _."},
                "description": {"type": "string", "description": "Its purpose, in a sentence or two."},
                "fields": {
                    "type": "object",
                    "description": "The fields of a firing, by name.",
                    "additionalProperties": _FIELD,
                },
                "actions": {
                    "type": "object",
                    "description": "The possible actions, by name; usually one.",
                    "additionalProperties": _ACTION,
                },
                "unhandled": {
                    "type": "string",
                    "enum": ["approve", "ask"],
                    "description": "The default if no handler decides; approve if omitted.",
                },
                "fires_on": _CONDITION,
                "two_stage": {
                    "type": "boolean",
                    "description": "A model first writes guidance for each firing, and the user may change it. The "
                    "code reads pending.fields['guidance']. If omitted, no model is called.",
                },
            },
            "required": ["name", "description", "fields", "actions"],
            "additionalProperties": False,
        },
    },
}
"""The tool of a model that writes an operation. Its arguments are the dict form of an `OperationSpec`."""

_WORDS: Final = 3  # of the task, in the template's name
_SMALL: Final = frozenset({"a", "all", "an", "and", "are", "at", "be", "by", "each", "every", "for", "in", "is", "it",
                           "of", "on", "or", "that", "the", "to", "with"})  # fmt: skip


def operation_template(text: str) -> str:
    """Return a `%%tract_operation` cell for a task. It defines an operation without changes."""
    task = " ".join(text.split()).replace("\\", "/").replace('"""', "'''").strip('" ')
    about = f"{task[0].upper()}{task[1:]}".rstrip(".") + "." if task else "Describe its purpose here."
    return f'''\
%%tract_operation {_name_of(text)}
"""{about}"""
texts: Annotated[list[str], "Texts to find"]   # a field: each firing has a value for it
found: bool = False                            # a field with a default is optional

def check(pending, strict: bool = False):
    """Describe this action here."""
    context = str(pending.tract.compile().to_dicts())
    missing = [text for text in pending.fields["texts"] if text not in context]
    pending.fields["found"] = not missing
    if missing and strict:
        pending.reject(f"not found: {{missing}}")
    else:
        pending.approve()
'''


def _name_of(text: str) -> str:
    """Return a name made of the first meaningful words."""
    words = [word for word in re.findall(r"[a-z][a-z0-9]*", text.lower()) if word not in _SMALL]
    name = "_".join(words[:_WORDS])[:40]
    return "my_operation" if not name or keyword.iskeyword(name) else name
