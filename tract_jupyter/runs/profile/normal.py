"""Operations as people, models and other programs write them, brought into one form before they are read.

What is left out gets its default here where that depends on something else: the tag comes from the name (X04), and a
guard writes JSON (E22).
"""

from __future__ import annotations

import re
import unicodedata
from typing import Any, Final

from pydantic.alias_generators import to_camel

from tract_jupyter.models.canonical import sha256
from tract_jupyter.runs.model import Operation

_DEFINITION: Final = ("operationId", "name", "kind", "description", "capabilities")
_ID: Final = ("operationId", "opId", "id")
_CONDITION: Final = {"sourceOpId": "source", "outputKey": "output"}
_OPERATORS: Final = {"is_true": True, "is_false": False}
_MAX_TAG: Final = 64


def normal_operation(given: object) -> object:
    """Return an operation as `{definition, config}`; what is no object stays as it is.

    It may be an `Operation`, such an object, `{operationId, name, kind, config}` as the documents have it (E19), or
    all fields side by side. The name defaults to the id.
    """
    if isinstance(given, Operation):
        given = given.to_dict()
    if not isinstance(given, dict):
        return given
    definition, config = _split(camel(given))
    if not isinstance(config, dict):
        return {"definition": definition, "config": config}
    return {"definition": definition, "config": _normal_config(definition, camel(config))}


def identity(given: object) -> str | None:
    """Return the id of an operation in normal form, if it has one."""
    definition = given.get("definition") if isinstance(given, dict) else None
    found = definition.get("operationId") if isinstance(definition, dict) else None
    return found if isinstance(found, str) else None


def tag_of(name: str, otherwise: str) -> str:
    """Return the tag for a name: `Saved op` -> `saved_op`. A name without Latin letters leaves the other text (X04)."""
    for text in (name, otherwise):
        plain = unicodedata.normalize("NFKD", text.casefold()).encode("ascii", "ignore").decode()
        tag = re.sub(r"[^a-z0-9]+", "_", plain).strip("_")
        if tag:
            return (tag if tag[0].isalpha() else f"a_{tag}")[:_MAX_TAG]
    return f"a_{sha256(otherwise.encode('utf-8', 'surrogatepass'))[:12]}"


def camel(given: dict[Any, Any]) -> dict[str, Any]:
    """Return an object with `depends_on` spelled as `dependsOn`; objects within it stay as they are."""
    return {
        to_camel(key) if isinstance(key, str) and "_" in key else key: value for key, value in given.items()
    }


def _split(given: dict[str, Any]) -> tuple[dict[str, Any], Any]:
    rest = dict(given)
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


def _condition(given: object) -> object:
    """Return `{source, output, is}` for what E23 writes as `{type, sourceOpId, outputKey, operator}`."""
    if not isinstance(given, dict):
        return given
    normal = {_CONDITION.get(name, name): value for name, value in given.items()}
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


def _exposure(given: object) -> object:
    """Return what is stored: `developer` is a `system` message (G19), which every provider knows."""
    if not isinstance(given, dict):
        return given
    normal = camel(given)
    return {**normal, "role": "system"} if normal.get("role") == "developer" else normal
