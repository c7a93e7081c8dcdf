"""Texts about calling tools: why a call has no usable result, how scripts call tools, how our MCP server is used."""

from __future__ import annotations

from typing import Final

SCRIPT_ENDED: Final = "the script has ended"
SCRIPT_STOPPED: Final = "the script that called this was stopped"
CHANGED_SINCE: Final = "tool {tool!r} was changed or removed since; make the call again"
NO_PERMISSION: Final = "{actor} has no permission to call {tool!r}"
OF_A_TRACT_ABOVE: Final = (
    "these tools belong to a tract above the script's tract; call the script's own tools: tools.NAME(...)"
)
NOT_GRANTED: Final = (
    "{tool!r} was not granted to {actor}; asking again changes nothing.{near} Granted: {names}"
)
NOTHING_ABOVE: Final = "no tool can be called: {why}"
"""The reason in a tract whose parent is closed or deleted."""

TOLD_NOT_DONE: Final = (
    "reported, not run: autonomy is manual. The user sees that {actor} wanted to call {tool!r}. Nothing was "
    "changed, and asking again changes nothing"
)
"""The reason for a caller that may only suggest calls."""

CALLED_FROM_CODE: Final = (
    "{tool} did not run. Call it from a script: notebook_execute(code='print(tools.{function}(...))')"
)


def undecided(why: str) -> str:
    """Return the reason why a call has no decision yet, with advice for the model."""
    advice = "Do not repeat the call: that would make another request. Continue without it, or wait."
    return f"{why.rstrip('.')}. {advice}"


NO_JSON: Final = (
    "{tool} ran, but its result cannot be used: {reason}. Do not repeat the call for that; the tool's author should "
    "return strings, numbers, booleans, None, lists and dicts"
)
TOO_LARGE: Final = (
    "{tool} ran, but its result has {size:,} bytes of JSON, and the maximum is {limit:,}. Ask for less if you can, "
    "such as fewer rows or one part at a time. Do not repeat a call that changes something"
)


SCRIPTS: Final = """\
You can run Python that calls tools, with notebook_execute(code=...). Prefer it over single calls when you need many \
calls, when a result is only an input of the next call, or when you need a small part of a large result.

- Tools are functions of `tools`, which exists already: tools.NAME(argument=value). They return plain data.
- Results of tools stay in the script. You see only printed text and the last expression: print \
totals, names, the few important rows; never whole results.
- Loop, filter, join and count in Python:
    rows = [tools.get_commit(commit_hash=c["commit_hash"]) for c in tools.log(limit=50)]
    print(len(rows), sorted({row["content_type"] for row in rows}))
- The user may refuse a call that writes, with a reason. Catch the error and continue:
    try:
        tools.annotate(target_hash=h, priority="pinned")
    except ToolDenied as error:
        print("not pinned:", error)
  Any other failure is a ToolExecutionError; its text gives the problem and the allowed values.
- Variables and functions stay for your next script of the same notebook_id.
- The sandbox (the default) has no files, no network and no packages, and runs a subset of Python: no inheritance, no \
yield, no del; json, re, math, datetime and collections can be imported. backend="contained" is full Python with \
packages such as numpy, at once, but without files and variables of the user, and its variables do not stay. \
backend="kernel" has all that, and runs only after the user approves the code, perhaps with changes. There, \
notebook_id="user" is the user's own notebook: you read and set its variables, and the user sees your plots.
- A script cannot run scripts. Its calls and its time are limited.
"""
SEARCH: Final = """\
- There may be more tools than are listed here. tools_search(query=...) finds some, tools_describe(names=[...]) \
explains their calls. A script also has both: tools.tools_search(...), tools.tools_describe(...).
"""

SCRIPT_TOOLS: Final = "\nThe functions of `tools`:\n\n```python\n{stubs}```\n"
NAMED: Final = "# and {count} more: {names}\n"
TO_BE_FOUND: Final = "# and {count} more: tools_search finds them{spaces}\n"


READ_RESOURCE_DESCRIPTION: Final = (
    "Read a resource of this server by its URI, such as a link in an answer. Not for other addresses."
)
SERVER_INSTRUCTIONS: Final = """\
These tools work on a versioned, token-counted context and fire the operations that its owner has approved. \
Tools that only read answer at once. Any other call waits until its owner allows it in their notebook. If that takes \
long, the call returns a status and an id: call result(id) to wait again. If you stop waiting, the owner can still \
decide: make the identical call again later. A refused call did not run; the error gives the reason."""
RESULT_DESCRIPTION: Final = (
    "Wait again for a call that returned a status 'waiting' or 'running', and return its result. Not for other "
    "calls."
)
CALL_WAITS: Final = {
    "waiting": "The owner has not decided yet, and nothing ran. Call result(id={id!r}) to wait again.",
    "running": "The call has not ended yet. Call result(id={id!r}) to wait again.",
}
"""The note in the answer for an unfinished call, by its status."""
UNKNOWN_CALL: Final = (
    "There is no unfinished call of yours with this id. Make the same call again: a decision of the owner still "
    "counts."
)
TOO_MANY_CALLS: Final = "Too many calls wait here. Wait for their results before you make more."
KERNEL_AWAY: Final = (
    "The kernel gave no result for this call: it ended or restarted, or it refused the call ({error}). The effect is "
    "unknown. A question to the user stays in the notebook's inbox: make the same call again, and a decision counts."
)
CALL_TOO_LARGE: Final = (
    "The call has {size:,} bytes, and the kernel takes at most {limit:,}. It was not sent, and nothing ran. Send less, "
    "or write the data into a file."
)
LATER_DECISION: Final = "{why}. Make the same call again later: it uses the decision."
LATE_RESULT: Final = (
    "This is the result of the identical call that you stopped waiting for. It did not run again."
)
RUN_CODE: Final = (
    "Run Python code with the variables of the user's live notebook, in line with the user's cells. It returns the "
    "printed text, the last expression and plots. The user reads the code and its effects first, and may change or "
    "reject it."
)
VARIABLES: Final = (
    "List the variables of the user's live notebook with their types and shapes, also while a cell runs. Not for their "
    "values: print them in run_code."
)
WAITS_FOR_OWNER: Final = "Waiting for the owner's decision in their notebook"
RUNS: Final = "Running"
"""Progress messages for a client that waits for a call."""


def refused_call(tool: str, why: str) -> str:
    """Return the error of a refused MCP call."""
    return f"The call of {tool!r} was refused, and nothing ran. Reason: {why}"
