"""Vectors of profiles: what saving refuses, and how a profile compiles."""

from __future__ import annotations

from typing import Any

from tract_jupyter.exceptions import ProfileError
from tract_jupyter.runs.profile import (
    CompiledProfile,
    OperationBlock,
    OperationProfile,
    read_block,
    read_profile,
)

_PARAMS = {"text": "template", "strict": "strictVariables", "outputs": "outputContract"}


def validate_block(given: dict[str, Any]) -> dict[str, Any]:
    """Save a block."""
    block = {"blockId": "block", **{key: value for key, value in given.items() if key != "ops"}}
    block.setdefault("name", "block")
    return _tried(
        lambda: _block_view(read_block({**block, "operations": list(map(operation, given["ops"]))}))
    )


def validate_profile(given: dict[str, Any]) -> dict[str, Any]:
    """Save a profile of which only the references are given."""
    profile = dict(given["profile"])
    refs = [{**_without(ref, "block"), "block": {"blockId": ref["block"], "name": ref["block"]}}
            for ref in profile.pop("refs", None) or []]  # fmt: skip
    return _tried(
        lambda: {"refCount": len(read_profile({"profileId": "p", **profile, "blocks": refs}).blocks)}
    )


def compile_profile(given: dict[str, Any]) -> dict[str, Any]:
    """Compile a profile of references and blocks."""
    return _tried(lambda: _compiled(_profile(given).compile()))


def _profile(given: dict[str, Any]) -> OperationProfile:
    blocks = {name: block_json(name, block) for name, block in given["blocks"].items()}
    refs = [{**ref, "block": blocks.get(ref["block"])} for ref in given.get("refs", [])]
    head = {"profileId": given.get("id", "p"), "name": "p", **_without(given, "blocks", "refs", "id")}
    return read_profile({**head, "blocks": refs})


def _compiled(plan: CompiledProfile) -> dict[str, Any]:
    operations = plan.operations
    conditions = {
        one.id: [{"source": c.source, "output": c.output, "is": c.is_} for c in one.config.run_conditions]
        for one in operations
    }
    needs = {one.id: list(one.config.depends_on) for one in operations}
    return {
        "ops": [one.id for one in operations],
        "orders": {one.id: int(one.config.order) for one in operations},
        "fingerprint": plan.fingerprint,
        "commitPriority": [one.id for one in sorted(operations, key=lambda one: (one.config.order, one.id))],
        "dependsOn": needs,
        "deps": needs,
        "runConditions": conditions,
        "conditions": conditions,
        "tags": {one.id: one.config.artifact.tag for one in operations if one.config.artifact},
    }


def operation(op: dict[str, Any]) -> dict[str, Any]:
    """JSON of an operation for the short form of the vectors."""
    kind = op["kind"]
    params = {_PARAMS.get(key, key): value for key, value in (op.get(kind) or {}).items()}
    if "outputContract" in params:
        params["outputContract"] = [
            one if isinstance(one, dict) else {"key": one} for one in params["outputContract"]
        ]
    artifact = op.get("artifact")
    if artifact is not None:
        drop = {"omitTag", "tag"} if artifact.get("omitTag") else {"omitTag"}
        artifact = {key: value for key, value in artifact.items() if key not in drop}
    short = {"id", "name", "kind", "artifact", kind}
    config = {key: value for key, value in op.items() if key not in short}
    if artifact is not None:
        config["artifact"] = artifact
    about = {"operationId": op["id"], "name": op.get("name", op["id"]), "kind": kind}
    return {**about, "config": {"params": params, **config}}


def block_json(block_id: str, block: dict[str, Any]) -> dict[str, Any]:
    """JSON of a block."""
    rest = {"blockId": block_id, "name": block_id, **_without(block, "ops")}
    return {**rest, "operations": list(map(operation, block["ops"]))}


def _tried(view: Any) -> dict[str, Any]:
    try:
        return {"ok": True, **view()}
    except ProfileError as error:
        rules = [rule for rule, _, _ in error.problems]
        return {"ok": False, "error": {"code": "validation_error", "rule": rules[0], "rules": rules}}


def _block_view(block: OperationBlock) -> dict[str, Any]:
    configs = {one.id: one.config for one in block.operations}
    exposures = {name: [one.model_dump(mode="json", by_alias=True) for one in config.artifact.exposures]
                 for name, config in configs.items() if config.artifact}  # fmt: skip
    whole = {name: config.model_dump(mode="json", by_alias=True) for name, config in configs.items()}
    artifacts = {name: config["artifact"] for name, config in whole.items()}
    return {"normalized": whole, "artifact": artifacts, "exposures": exposures, "opCount": len(configs)}


def _without(value: dict[str, Any], *names: str) -> dict[str, Any]:
    return {key: one for key, one in value.items() if key not in names}
