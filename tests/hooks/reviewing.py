"""Models that review first, made of a script, and a tract whose model they review."""

from __future__ import annotations

import copy
import json

from tests.hooks.fakes import call, reply
from tract_jupyter.operations import ActionDef, OperationSpec
from tract_jupyter.toolkit import ToolDefinition, Traits

ASKED = "Count the birds by month, and note what you find."


def decided(decision, reason="it is what was asked for", **more):
    """A reply of a model that reviews first."""
    return reply(None, call("decide", {"decision": decision, "reason": reason}), **more)


class Reviewing:
    """Says the same about each call, or what a function says of the request; keeps what it was asked."""

    def __init__(self, says="clear"):
        self.says = says
        self.asked = []

    def chat(self, messages, **options):
        self.asked.append((copy.deepcopy(messages), options))
        said = self.says(messages) if callable(self.says) else self.says
        return decided(said) if isinstance(said, str) else said

    @property
    def texts(self):
        return "\n".join(json.dumps(messages) for messages, _ in self.asked)


def operation(name, code="pending.approve()", isolation="sandbox", *, params=None, actions=1, **more):
    """An operation with a text, whose actions do the same."""
    made = {
        f"go{number or ''}": ActionDef(f"go{number or ''}", "", params or {}, code, isolation=isolation)
        for number in range(actions)
    }
    fields = {"text": {"type": "str", "default": ""}}
    return OperationSpec(
        name=name, description="Look at a text.", **{"fields": fields, "actions": made, **more}
    )


OPERATIONS = (
    operation("summary", "pending.fields['text'] = pending.fields['text'].strip()\npending.approve()"),
    operation("many", fields={"values": {"type": "list[int]"}}),
    operation("plain", actions=0),
    operation("deploy", isolation="kernel", fields={"target": {"type": "str"}}),
    operation("asks", unhandled="ask"),
    operation("two", actions=2),
    operation("guarded"),
    operation("takes", params={"strict": "bool"}),
    operation("odd", "exec(pending.fields['text'])\npending.approve()"),
)


def make_ready(tract):
    """Give a tract tools and operations of many kinds, and a conversation with what calls may point at.

    Returns:
        The hashes by the names that calls use for them.
    """
    own = {
        "http_post": Traits(open_world=True), "http_get": Traits(open_world=True), "delete_file": Traits(destructive=True),
        "write_file": Traits(), "note_down": Traits(), "set_value": Traits(), "send": Traits(),
        **dict.fromkeys(
            ["set_autonomy", "register_policy", "toggle_policy", "grant_always", "add_tool", "set_budget", "unlock_tool",
             "model_reviewer", "commit_"], Traits()
        ),
    }  # fmt: skip
    anything = {"type": "object", "properties": {}, "additionalProperties": True}
    for name, traits in own.items():
        if tract.executor.get(name) is not None:
            continue  # a supervisor's
        tool = ToolDefinition.from_schema(name, "Do it.", anything, lambda **_: "done", traits=traits)
        tract.executor.add(tool)
    tract.executor.lock_tool("send", "not now")
    for spec in OPERATIONS:
        tract.register_operation(spec)
    tract.on("guarded", lambda pending: None)
    names = {}
    names["$SYSTEM"] = tract.system("You count birds.").commit_hash
    names["$FIRST"] = names["$SYSTEM"]
    tract.branch("other")
    names["$ELSEWHERE"] = tract.assistant("Said on another branch.").commit_hash
    tract.switch("main")
    names["$PINNED"] = tract.user("Keep the dates.").commit_hash
    tract.annotate(names["$PINNED"], "pinned")
    names["$USER"] = tract.user(ASKED).commit_hash
    tract.tags.add(names["$USER"], "decision")
    names["$ASSISTANT"] = tract.assistant("There are 412 rows.").commit_hash
    content = {
        "content_type": "tool_io",
        "tool_name": "look",
        "direction": "result",
        "payload": {"content": "OF-A-TOOL"},
    }
    names["$TOOL"] = tract.commit(content).commit_hash
    calls = [{"id": "c1", "name": "look", "arguments": {}}]
    names["$CALLS"] = tract.assistant("", metadata={"tool_calls": calls}).commit_hash
    return names


def filled(value, names):
    """Put hashes in the place of their names."""
    if isinstance(value, str):
        for name, commit in names.items():
            value = value.replace(name, commit)
        return "a " * 100_000 if value == "$HUGE" else value
    if isinstance(value, dict):
        return {key: filled(one, names) for key, one in value.items()}
    return [filled(one, names) for one in value] if isinstance(value, list) else value
