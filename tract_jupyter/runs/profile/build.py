"""Make operations in one line each, for notebooks, and the block of the tract's own operations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal

from pydantic.alias_generators import to_camel

from tract_jupyter.exceptions import ProfileError, nearest
from tract_jupyter.models import brief_repr
from tract_jupyter.runs.kinds.registry import KindRegistry
from tract_jupyter.runs.model import Operation
from tract_jupyter.runs.profile.model import BlockRef, OperationBlock, OperationProfile
from tract_jupyter.runs.profile.validate import check_operations, normal_operation
from tract_jupyter.runs.terms import Data, Hook

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tract_jupyter.operations import OperationSpec


When = Literal["before", "after", "both"]
Into = Literal["system", "user", "tail", "message", "reply"]

_HOOKS: Final = {
    "before": ["before_main_llm"],
    "after": ["after_main_llm"],
    "both": ["before_main_llm", "after_main_llm"],
}
_INTO: Final[dict[str, dict[str, Any]]] = {
    "system": {"type": "prompt_part", "target": "system", "mode": "append"},
    "user": {"type": "prompt_message", "role": "system", "anchor": "after_last_user"},
    "tail": {"type": "prompt_message", "role": "system", "anchor": "depth_from_end", "depthFromEnd": 0},
    "message": {"type": "turn_rewrite", "target": "current_user_main"},
    "reply": {"type": "turn_rewrite", "target": "assistant_output_main"},
}
PLACES: Final = tuple(_INTO)
"""The names of places for an operation's value."""
_ARGUMENTS: Final = ("kind", "order", "text", "tag", "into", "when", "after", "only_if", "keep", "outputs")
_ARTIFACT: Final = ("title", "format", "history", "semantics", "usage", "write_mode")
_CONFIG: Final = (
    "enabled", "required", "triggers", "activation", "timeout_ms", "retry", "provider", "debug", "description",
    "capabilities", "name", "hooks", "artifact", "run_conditions",
)  # fmt: skip


def run_operation(
    operation_id: str, kind: str = "template", *, order: float, text: str | None = None, tag: str | None = None,
    into: Into | Mapping[str, Any] | Iterable[Into | Mapping[str, Any]] = (), when: When = "before",
    after: str | Iterable[str] = (), only_if: Mapping[str, bool] | None = None, keep: bool = False,
    outputs: Iterable[str] = (), **more: Any,
) -> Operation:  # fmt: skip
    """Make an operation: `run_operation("mood", order=10, text="Be kind.", into="system")`.

    Args:
        operation_id: the id; also the default name.
        kind: the kind: `template`, `llm`, `guard`, `tool`, ... Likely typos are refused. Other unknown names are
            allowed,
            because a package may add the kind.
        order: smaller orders run and commit first (R24).
        text: the parameter `template` of a template, `prompt` of a model call or guard, or `text` of any other kind. A
            guard with a text and without `engine` asks a model.
        tag: the tag of its artifact, for `art.<tag>`; by default made from the name if there is an artifact.
        into: places for its value: `system` (the end of the system message), `user` (after the user message), `tail`
            (the
            end of the prompt), `message` (replaces the user message), `reply` (replaces the reply). An exposure as
            JSON, or several places, are allowed as well.
        when: before the main call, after it, or both.
        after: the operations that must be done first.
        only_if: required answers of guards, by `guard.output`; the guards become dependencies.
        keep: True to keep the artifact between runs.
        outputs: the keys of a guard's answers.
        more: other fields of the configuration (`required=True`, `retry={...}`) or of its artifact (`history={...}`).
            All
            others are parameters of the kind (`model="..."`).

    Raises:
        ProfileError: lists all problems of this operation alone. The profile checks references to other operations.
    """
    config = {to_camel(name): more.pop(name) for name in _CONFIG if name in more}
    artifact = {to_camel(name): more.pop(name) for name in _ARTIFACT if name in more}
    exposures = _exposures(operation_id, into)
    if tag is not None or artifact or exposures or keep or kind == "guard":
        persistence = {"persistence": "persisted"} if keep else {}
        artifact |= {"tag": tag, "exposures": exposures, **persistence}
        config.setdefault("artifact", artifact)
    if isinstance(config.get("triggers"), str):
        config["triggers"] = [config["triggers"]]
    conditions = _conditions(operation_id, only_if or {})
    if conditions:
        config["runConditions"] = [*config.get("runConditions", ()), *conditions]
    sources = [one["source"] for one in conditions]
    about = {
        "hooks": _hooks(operation_id, when), "dependsOn": [*_several(operation_id, "after", after), *sources],
        "params": _params(kind, text, _several(operation_id, "outputs", outputs), more), "order": order, **config,
    }  # fmt: skip
    return _alone({"operationId": operation_id, "kind": kind, **about})


def field_names(kind: str = "") -> list[str]:
    """Return the possible fields of an operation: the arguments of `run_operation`, and the parameters of its kind.

    Without the kind, or if it declares no parameters, there are only the arguments.
    """
    kinds = KindRegistry()
    classes = getattr(kinds[kind], "parameters", ()) if kind in kinds else ()
    named = [name for one in classes for name in one.model_fields]
    return list(dict.fromkeys([*_ARGUMENTS, *_CONFIG, *_ARTIFACT, *named]))


def _params(kind: str, text: str | None, outputs: list[str], more: dict[str, Any]) -> dict[str, Any]:
    params = {to_camel(name): value for name, value in more.items()}
    if outputs:
        params["outputContract"] = [{"key": key} for key in outputs]
    if kind == "guard" and text is not None and "engine" not in params:
        params["engine"] = "aux_llm"
    if text is not None:
        asks = kind == "llm" or (kind == "guard" and params["engine"] != "liquid")
        params["prompt" if asks else "template" if kind in {"guard", "template"} else "text"] = text
    return params


def _exposures(operation_id: str, into: Any) -> list[Any]:
    several = [into] if isinstance(into, Mapping) else _several(operation_id, "into", into)
    for one in several:
        if isinstance(one, str) and one not in _INTO:
            message = (
                f"Unknown place {one!r}. Use {', '.join(_INTO)}, or an exposure as JSON.{nearest(one, _INTO)}"
            )
            raise ProfileError([("exposure_invalid", f"operation {operation_id!r}, into", message)])
    return [_INTO[one] if isinstance(one, str) else dict(one) for one in several]


def _several(operation_id: str, what: str, given: Any) -> list[Any]:
    """Return words as a list; a single text is one word, and None is an empty list."""
    if given is None or isinstance(given, str):
        return [] if given is None else [given]
    if isinstance(given, Data | Mapping) or not isinstance(given, Iterable):
        message = f"{what} must be a word or a list of words, not {brief_repr(given)}"
        if what == "after" and isinstance(given, Operation):
            message = f"after takes ids: write after={given.id!r}"
        raise ProfileError([("words_expected", f"operation {operation_id!r}, {what}", message)])
    return list(given)


def _hooks(operation_id: str, when: object) -> list[str]:
    if not isinstance(when, str) or when not in [*_HOOKS, *Hook]:
        guess = nearest(when, _HOOKS) if isinstance(when, str) else ""
        message = f"the hook must be 'before', 'after' or 'both', not {brief_repr(when)}.{guess}"
        raise ProfileError([("hooks_invalid", f"operation {operation_id!r}, when", message)])
    return [when] if when in list(Hook) else _HOOKS[when]


def _conditions(operation_id: str, only_if: object) -> list[dict[str, Any]]:
    if not isinstance(only_if, Mapping):
        message = (
            f"it must map outputs to answers, such as {{'guard.output': True}}, not {brief_repr(only_if)}"
        )
        raise ProfileError([("condition_invalid", f"operation {operation_id!r}, only_if", message)])
    return [_condition(operation_id, str(name), expected) for name, expected in only_if.items()]


def _condition(operation_id: str, name: str, expected: object) -> dict[str, Any]:
    # an id may contain points, a key may not
    source, point, output = name.rpartition(".")
    if not point:
        message = f"{name!r} names no output: write only_if={{'guard.{name}': True}} with the guard's id"
        raise ProfileError([("condition_invalid", f"operation {operation_id!r}, only_if", message)])
    return {"source": source, "output": output, "is": expected}


_OF_OTHERS: Final = {"unknown_dependency", "condition_unknown_source"}


def _alone(fields: dict[str, Any]) -> Operation:
    """Read one operation, without checks of its references to others."""
    kinds = KindRegistry()
    operations, problems = check_operations([normal_operation(fields)], kinds, room=0)
    kind = fields["kind"]
    guess = nearest(kind, kinds) if isinstance(kind, str) and kind not in kinds else ""
    if guess:  # any other kind may belong to a package that is not installed here
        message = f"there is no kind {kind!r}.{guess} If a package adds that kind, install it first"
        problems.append(("unsupported_kind", f"operation {fields['operationId']!r}, kind", message))
    problems = [problem for problem in problems if problem[0] not in _OF_OTHERS]
    if problems:
        raise ProfileError(problems)
    return operations[0]


BLOCK: Final = "own"
"""The id of the block; its operations are named `own:NAME`."""
_LAST: Final = 1e9


def with_own(profile: OperationProfile | None, specs: Sequence[OperationSpec]) -> OperationProfile | None:
    """Return the profile with the tract's own operations at the end; only these if there is no profile.

    Args:
        profile: the chosen profile; None for none.
        specs: the tract's own operations; each names its hook.
    """
    if not specs:
        return profile
    block = OperationBlock.of(BLOCK, [_operation(spec, place) for place, spec in enumerate(specs)])
    if profile is None:
        return OperationProfile.of(BLOCK, blocks=[block])
    return profile.model_copy(update={"blocks": (*profile.blocks, BlockRef(block=block, order=_LAST))})


def _operation(spec: OperationSpec, place: int) -> Operation:
    when = spec.fires_on
    assert when is not None  # noqa: S101 # they are those that say it
    more: dict[str, Any] = {} if when.action is None else {"action": when.action}
    hook: Any = when.hook  # the name of a hook is valid as well
    return run_operation(
        spec.name, "dynamic", order=place, when=hook, required=when.required, description=spec.description,
        operation=spec.name, fields=when.fields, **more,
    )  # fmt: skip
