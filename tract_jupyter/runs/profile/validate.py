"""Read and check profiles and blocks before they are saved. All problems are reported at once.

Some defaults depend on other fields, so they are set here: the tag comes from the name (X04), and a guard writes JSON
(E22).
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pydantic.alias_generators import to_camel

from tract_jupyter.exceptions import ProfileError, RunError
from tract_jupyter.models import sha256
from tract_jupyter.runs.kinds.registry import KindRegistry
from tract_jupyter.runs.model import Operation
from tract_jupyter.runs.profile.model import BlockRef, OperationBlock, OperationProfile
from tract_jupyter.runs.profile.rules import RULES, OperationSet
from tract_jupyter.runs.reading import read
from tract_jupyter.runs.terms import Data

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tract_jupyter.runs.kinds.base import Problem


_DEFINITION: Final = ("operationId", "name", "kind", "description", "capabilities")
_ID: Final = ("operationId", "opId", "id")
_CONDITION: Final = {"sourceOpId": "source", "outputKey": "output"}
_OPERATORS: Final = {"is_true": True, "is_false": False}
_MAX_TAG: Final = 64


def normal_operation(value: object) -> object:
    """Return an operation as `{definition, config}`; other values are returned unchanged.

    Accepts an `Operation`, such an object, `{operationId, name, kind, config}` (E19), or all fields in one object. The
    name defaults to the id.
    """
    if isinstance(value, Operation):
        value = value.to_dict()
    if not isinstance(value, dict):
        return value
    definition, config = _split(camel(value))
    if not isinstance(config, dict):
        return {"definition": definition, "config": config}
    return {"definition": definition, "config": _normal_config(definition, camel(config))}


def identity(value: object) -> str | None:
    """Return the id of an operation in normal form, if it has one."""
    definition = value.get("definition") if isinstance(value, dict) else None
    operation_id = definition.get("operationId") if isinstance(definition, dict) else None
    return operation_id if isinstance(operation_id, str) else None


def tag_of(name: str, otherwise: str) -> str:
    """Return the tag for a name: `Saved op` -> `saved_op`. Without Latin letters, use the other text (X04)."""
    for text in (name, otherwise):
        plain = unicodedata.normalize("NFKD", text.casefold()).encode("ascii", "ignore").decode()
        tag = re.sub(r"[^a-z0-9]+", "_", plain).strip("_")
        if tag:
            return (tag if tag[0].isalpha() else f"a_{tag}")[:_MAX_TAG]
    return f"a_{sha256(otherwise.encode('utf-8', 'surrogatepass'))[:12]}"


def camel(fields: dict[Any, Any]) -> dict[str, Any]:
    """Return an object with keys such as `dependsOn` instead of `depends_on`; nested objects are unchanged."""
    return {
        to_camel(key) if isinstance(key, str) and "_" in key else key: value for key, value in fields.items()
    }


def _split(fields: dict[str, Any]) -> tuple[dict[str, Any], Any]:
    rest = dict(fields)
    definition = rest.pop("definition", None)
    definition = camel(definition) if isinstance(definition, dict) else {}
    definition |= {name: rest.pop(name) for name in _DEFINITION if name in rest}
    ids = [
        value
        for name in _ID
        for value in (definition.pop(name, None), rest.pop(name, None))
        if value is not None
    ]
    if ids:
        definition["operationId"] = ids[0]
        definition.setdefault("name", ids[0])
    config = rest.pop("config", {})
    return definition, {**rest, **config} if isinstance(config, dict) else config


def _normal_config(definition: dict[str, Any], config: dict[str, Any]) -> dict[str, Any]:
    normal = {name: value for name, value in config.items() if value is not None or name == "order"}
    if isinstance(normal.get("runConditions"), list | tuple):
        normal["runConditions"] = [_condition(one) for one in normal["runConditions"]]
    guards = definition.get("kind") == "guard"
    artifact = normal.get("artifact", {} if guards else None)
    if isinstance(artifact, dict):
        normal["artifact"] = _artifact(definition, camel(artifact), guards=guards)
    return normal


def _condition(condition: object) -> object:
    """Return `{source, output, is}` for E23's `{type, sourceOpId, outputKey, operator}`."""
    if not isinstance(condition, dict):
        return condition
    normal = {_CONDITION.get(name, name): value for name, value in condition.items()}
    if normal.get("type") == "guard_output":
        del normal["type"]
    if "operator" in normal:
        operator = normal.pop("operator")
        normal["is"] = _OPERATORS.get(operator, operator) if isinstance(operator, str) else operator
    return normal


def _artifact(definition: dict[str, Any], given: dict[str, Any], *, guards: bool) -> dict[str, Any]:
    normal = {name: value for name, value in given.items() if value is not None}
    name, own_id = (str(definition.get(field, "")) for field in ("name", "operationId"))
    normal.setdefault("tag", tag_of(name, own_id))
    if guards:
        normal.setdefault("format", "json")
    if isinstance(normal.get("exposures"), list | tuple):
        normal["exposures"] = [_exposure(one) for one in normal["exposures"]]
    return normal


def _exposure(value: object) -> object:
    """Return the stored form: the role `developer` becomes `system` (G19), which every provider knows."""
    if not isinstance(value, dict):
        return value
    normal = camel(value)
    return {**normal, "role": "system"} if normal.get("role") == "developer" else normal


ProfileProblem = tuple[str, str, str]
"""A rule's name, the place of the problem, and a message."""

_D = TypeVar("_D", bound=Data)
_MAX_ID: Final = 200

_FIELDS: Final = {
    "definition.operationId": "operation_id",
    "definition.name": "name",
    "definition.kind": "kind",
    "config.order": "order_invalid",
    "config.hooks": "hooks_invalid",
    "config.triggers": "triggers_invalid",
    "config.dependsOn": "dependency_invalid",
    "config.runConditions": "condition_invalid",
    "config.artifact": "artifact_invalid",
    "config.artifact.tag": "tag_invalid",
    "config.artifact.exposures": "exposure_invalid",
    "config.artifact.history": "history_range",
    "config.activation": "activation_range",
    "config.timeoutMs": "timeout_range",
    "config.retry.maxAttempts": "attempts_range",
    "config.retry.backoffMs": "backoff_range",
    "config.retry": "retry_range",
    "config.params": "params_invalid",
    "profileId": "profile_id",
    "blockId": "block_id",
    "name": "name",
    "executionMode": "execution_mode",
    "sessionId": "session_id",
    "version": "version",
    "order": "order_invalid",
}  # fmt: skip
"""The rule of each field."""


def read_profile(value: OperationProfile | dict[str, Any]) -> OperationProfile:
    """Read a profile, normalize it, and check it.

    Args:
        value: a profile, or JSON.

    Raises:
        ProfileError: lists all problems.
    """
    kinds = KindRegistry()
    fields, inner = _apart(value, "operations", "blocks")
    profile, problems = _read(OperationProfile, fields, "profile")
    operations, operation_problems = check_operations(inner["operations"], kinds, room=0)
    refs, ref_problems = _read_refs(inner["blocks"], kinds)
    checked = _passed(profile, [*problems, *operation_problems, *ref_problems])
    return checked.model_copy(update={"operations": operations, "blocks": refs})


def read_block(value: OperationBlock | dict[str, Any]) -> OperationBlock:
    """Read a block, normalize it, and check it.

    Raises:
        ProfileError: lists all problems.
    """
    return _passed(*_check_block(value, KindRegistry()))


def check_operations(
    items: Iterable[object], kinds: KindRegistry, *, room: int
) -> tuple[tuple[Operation, ...], list[ProfileProblem]]:
    """Return the readable operations and all problems; `room` is the length of the block's prefix."""
    normal = [normal_operation(one) for one in items]
    all_problems: list[ProfileProblem] = []
    operations: list[Operation] = []
    for place, one in enumerate(normal, 1):
        operation, problems = _read(Operation, one, _where(identity(one), place))
        all_problems += problems
        if operation is not None:
            operations.append(operation)
    ids = [name for one in normal if (name := identity(one)) is not None]
    outputs = {one.id: declared(one, kinds) for one in operations if one.definition.kind == "guard"}
    together = OperationSet(operations, ids, outputs)
    for rule in RULES:
        all_problems += [(name, f"{_where(who)}, {field}", text) for name, who, field, text in rule(together)]
    for operation in operations:
        all_problems += [
            (rule, f"{_where(operation.id)}, params", text) for rule, text in _params(operation, kinds)
        ]
        if len(operation.id) + room > _MAX_ID:
            message = f"with the block's id it is longer than {_MAX_ID} characters: shorten it"
            all_problems.append(("operation_id", f"{_where(operation.id)}, operationId", message))
    return tuple(operations), all_problems


def declared(guard: Operation, kinds: KindRegistry) -> Sequence[str]:
    """Return the outputs that a guard declares; empty if they cannot be read."""
    outputs = getattr(kinds["guard"], "outputs", None) if "guard" in kinds else None
    return outputs(guard) if outputs is not None else ()


def _params(operation: Operation, kinds: KindRegistry) -> list[Problem]:
    kind = operation.definition.kind
    if kind not in kinds:
        return []
    try:
        return kinds[kind].check(operation)
    except RunError as error:
        return [("kind_unusable", str(error))]


def _check_block(value: object, kinds: KindRegistry) -> tuple[OperationBlock | None, list[ProfileProblem]]:
    fields, inner = _apart(value, "operations")
    name = fields.get("blockId") if isinstance(fields, dict) else None
    where = f"block {name!r}" if isinstance(name, str) and name else "block"
    block, problems = _read(OperationBlock, fields, where)
    room = len(name) + 1 if isinstance(name, str) else 0
    operations, wrong = check_operations(inner["operations"], kinds, room=room)
    problems += [(rule, f"{where}, {place}", text) for rule, place, text in wrong]
    return block and block.model_copy(update={"operations": operations}), problems


def _read_refs(
    items: Iterable[object], kinds: KindRegistry
) -> tuple[tuple[BlockRef, ...], list[ProfileProblem]]:
    refs: list[BlockRef] = []
    problems_found: list[ProfileProblem] = []
    for one in items:
        fields = one.to_dict() if isinstance(one, BlockRef) else one
        rest = {**fields, "block": {"blockId": "-", "name": "-"}} if isinstance(fields, dict) else fields
        block, block_problems = _check_block(fields.get("block") if isinstance(fields, dict) else None, kinds)
        ref, problems = _read(
            BlockRef, rest, f"reference to block {block.block_id!r}" if block else "reference"
        )
        problems_found += [*block_problems, *problems]
        if ref is not None and block is not None:
            refs.append(ref.model_copy(update={"block": block}))
    return tuple(refs), [*problems_found, *_twice(refs)]


def _twice(refs: list[BlockRef]) -> Iterable[ProfileProblem]:
    ids = [ref.block.block_id for ref in refs]
    for name in dict.fromkeys(name for name in ids if ids.count(name) > 1):
        yield "duplicate_block", f"block {name!r}", "the profile refers to it twice: keep one reference"


def _apart(data: object, *names: str) -> tuple[Any, dict[str, list[Any]]]:
    """Return the JSON without these lists, and the lists: their items are read one by one."""
    fields = data.to_dict() if isinstance(data, Data) else data
    if not isinstance(fields, dict):
        return fields, {name: [] for name in names}
    fields = camel(fields)
    inner = {name: fields.get(name, []) for name in names}
    # values that are not lists stay, and are refused like any invalid value
    lists = {name: list(value) if isinstance(value, list | tuple) else [] for name, value in inner.items()}
    rest = {name: value for name, value in fields.items() if not isinstance(inner.get(name), list | tuple)}
    return rest, lists


def _read(model: type[_D], value: object, where: str) -> tuple[_D | None, list[ProfileProblem]]:
    data, problems = read(model, value, _FIELDS)
    return data, [
        (rule, f"{where}, {field}" if field else where, f"{message}{_hint(rule, field)}")
        for rule, field, message in problems
    ]


def _hint(rule: str, field: str) -> str:
    name = field.rpartition(".")[2]
    return f" {_INSTEAD[name]}" if rule == "unknown_field" and name in _INSTEAD else _HINTS.get(rule, "")


_INSTEAD: Final = {
    "retention": "Use history={'maxItems': 5} to limit the stored values; there is no limit by time.",
    "contentType": "Use format: text, markdown or json.",
    "value": "The operation computes the value.",
    "deadlineMs": "Use timeoutMs for the time limit.",
}
"""Fields that other documents name, and their replacements here."""

_HINTS: Final = {
    "order_invalid": "; smaller orders run and commit first",
    "tag_invalid": "; a lower-case letter, then lower-case letters, digits and _",
}


def _where(name: str | None, place: int = 0) -> str:
    return f"operation #{place}" if name is None else f"operation {name!r}"


def _passed(data: _D | None, problems: list[ProfileProblem]) -> _D:
    if problems or data is None:
        raise ProfileError(problems)
    return data
