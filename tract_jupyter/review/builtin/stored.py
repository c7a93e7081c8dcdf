"""The built-in operations, and the types of their fields for validating data from a store.

A store may hold anything. `BUILT_IN` describes each operation by name. `Any` means that any value is valid, or that the
code that uses the value checks it.
"""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any, Final, Literal, NamedTuple

from pydantic import AfterValidator, Field, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from tract_jupyter.exceptions import PendingError

_Run = Annotated[list[str], Field(min_length=1)]


CommitOption = Literal[
    "operation", "edit_target", "message", "priority", "retain", "retain_match", "retain_match_mode", "metadata",
    "generation_config", "tools", "tags",
]  # fmt: skip


class _Placed(TypedDict):
    branch: str
    head: str


class _Guided(_Placed):
    guidance: str | None
    guidance_source: str | None


class _Writer(TypedDict):
    text: str
    generation_config: dict[str, Any]
    usage: dict[str, Any]


class _Compress(_Guided):
    summaries: list[str]
    writers: list[_Writer | None]
    source_commits: list[_Run]
    preserved_commits: list[str]
    original_tokens: int
    estimated_tokens: int
    target_tokens: Annotated[int, Field(ge=1)] | None
    most_tokens: list[int | None]
    price: str
    rewrite: str
    instructions: str | None
    message: str | None


class _GC(TypedDict):
    commits_to_remove: list[str]
    tokens_to_free: int
    excluded: list[str]
    orphan_retention_days: float
    archive_retention_days: float | None


class _Conflict(TypedDict):
    key: str
    kind: str
    target: str
    base: str
    ours: str | None
    theirs: str | None
    is_blocking: bool


class _Resolution(TypedDict):
    action: str
    replacement: str | dict[str, Any] | None
    reason: str


class _Merge(_Guided):
    source_head: str
    source_branch: str
    target_branch: str
    conflicts: list[_Conflict]
    resolutions: dict[str, _Resolution]
    strategy: str
    no_ff: Any
    delete_branch: Any
    message: str | None
    rewrite: str


class _Step(TypedDict):
    commit_hash: str
    operation: str
    target: str | None
    message: str


class _Rebase(_Placed):
    target_base: str
    target_head: str
    replay_plan: list[_Step]
    excluded: list[str]
    warnings: list[str]
    rewrite: str
    resolutions: dict[str, _Resolution]


class _Call(TypedDict):
    id: str
    name: str
    arguments: dict[str, Any]


class _Reply(TypedDict):
    response_text: str
    tool_calls: list[_Call]
    generation_config: dict[str, Any]
    diagnosis: str | None


class _FailedReply(_Reply):
    prompt: str
    usage: Any


class _Generate(_Reply, _Placed):
    model: Any
    usage: Any
    options: dict[str, Any]
    tools: list[Any]
    validator: Any
    retry_count: int
    retry_history: list[_FailedReply]
    max_retries: int
    retry_prompt: str | None
    hide_retries: Any
    message: Any
    metadata: dict[str, Any] | None
    prompt: list[dict[str, Any]] | None
    replaces: str | None
    provider_fields: dict[str, Any]
    ending: dict[str, str]


class _ToolResult(TypedDict):
    tool_call_id: Any
    tool_name: str
    content: str | dict[str, Any]
    writer: _Writer | None
    token_count: int
    original_content: Any
    is_error: Any
    edit: str | None
    options: dict[CommitOption, Any]
    branch: str | None


class _Policy(TypedDict):
    policy_name: str
    action_type: str
    action_params: dict[str, Any]
    reason: str
    definition_hash: str


class _Output(TypedDict):
    kind: Literal["stdout", "stderr"]
    text: str


class _Profile(TypedDict):
    name: str
    tools: list[str]
    left_out: list[str]
    has_others: bool
    has_built_in: bool


class _Script(TypedDict):
    code: str
    first_line: Annotated[int, Field(ge=1)]
    call: Annotated[list[int], Field(min_length=4, max_length=4)]
    notebook_id: str
    names: list[str]
    author: str
    profile: _Profile | None
    snapshot: str
    outputs: list[_Output]
    calls: int
    result_bytes: int
    exchanged: Annotated[list[int], Field(min_length=3, max_length=3)]
    seconds: float
    limits: dict[str, Any]
    tract: str


class _ScriptCall(TypedDict):
    tool: str
    arguments: dict[str, Any]
    definition_hash: str
    script: _Script


def _paired(fields: _Compress) -> _Compress:
    summaries, runs = len(fields["summaries"]), len(fields["source_commits"])
    if summaries != runs:
        raise ValueError(f"{summaries} summaries for {runs} runs of messages")
    return fields


class BuiltIn(NamedTuple):
    """A built-in operation.

    Attributes:
        fields: the type of its fields.
        restored: the method of a tract's part that restores a pending of another process.
        is_hookable: True if handlers can be registered for it.
    """

    fields: Any
    restored: str
    is_hookable: bool = True


BUILT_IN: Final[dict[str, BuiltIn]] = {
    "compress": BuiltIn(Annotated[_Compress, AfterValidator(_paired)], "history_verbs.compress.restored"),
    "gc": BuiltIn(_GC, "history_verbs.gc.restored"),
    "merge": BuiltIn(_Merge, "history_verbs.merge.restored"),
    "rebase": BuiltIn(_Rebase, "history_verbs.rebase.restored"),
    "generate": BuiltIn(_Generate, "generation.restored"),
    "tool_result": BuiltIn(_ToolResult, "tool_results.restored"),
    "policy": BuiltIn(_Policy, "policies.restored"),
    "script_call": BuiltIn(_ScriptCall, "restored_call", is_hookable=False),
}
"""The operations that the package itself fires, by name."""

BUILTIN_OPERATIONS = frozenset(name for name, about in BUILT_IN.items() if about.is_hookable)
"""The operation names that accept handlers. Dynamic operations cannot use them."""


def check_stored(operation: str, fields: dict[str, Any]) -> None:
    """Check that all fields of a built-in operation exist and have the right types."""
    problem = field_problem(operation, fields)
    if problem:
        raise PendingError(
            f"the stored {operation} cannot be read ({problem}): it was changed, or another version of "
            "tract_jupyter wrote it. Nothing was done; propose it again"
        )


def field_problem(operation: str, fields: dict[str, Any] | str) -> str:
    """Return the first invalid field of a built-in operation with the problem. Empty if there is none.

    The result is also empty for an operation that is not built in.
    """
    if operation not in BUILT_IN:
        return ""
    kind = stored_type(operation)
    try:
        if isinstance(fields, str):
            kind.validate_json(fields, strict=True)
        else:
            kind.validate_python(fields, strict=True)
    except ValidationError as error:
        wrong = error.errors(include_url=False, include_input=False)[0]
        return ": ".join(filter(None, [".".join(map(str, wrong["loc"])), wrong["msg"]]))
    return ""


@cache  # built on first use, because few processes need it
def stored_type(operation: str) -> TypeAdapter[Any]:
    """Return the type of the fields of a built-in operation."""
    return TypeAdapter(BUILT_IN[operation].fields)
