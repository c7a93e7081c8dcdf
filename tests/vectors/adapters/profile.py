"""Vectors of profiles: what is refused when it is saved, what it compiles to, what is imported."""

from __future__ import annotations

from typing import Any

from tract_jupyter.exceptions import ProfileError
from tract_jupyter.runs.profile import (
    BUNDLE,
    VERSION,
    Block,
    BlockRef,
    CompiledProfile,
    OperationProfile,
    import_bundle,
    read_block,
    read_profile,
)

_CONTENT = ("bundle", "profile", "input", "file", "data", "payload", "content", "legacy", "old")
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
    head = {"id": "p", "name": "p", **_without(given, "blocks")}
    bundle = {"type": BUNDLE, "version": VERSION, "profile": head, "blocks": given["blocks"]}
    return import_bundle(_respelled(bundle))


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


def import_profile(given: dict[str, Any]) -> dict[str, Any]:
    """Import a bundle or an old profile."""
    content = next((given[key] for key in _CONTENT if key in given), given)
    return _tried(lambda: _profile_view(import_bundle(_respelled(content), taken=given.get("existing", ()))))


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


def _block_view(block: Block) -> dict[str, Any]:
    configs = {one.id: one.config for one in block.operations}
    exposures = {name: [one.model_dump(mode="json", by_alias=True) for one in config.artifact.exposures]
                 for name, config in configs.items() if config.artifact}  # fmt: skip
    whole = {name: config.model_dump(mode="json", by_alias=True) for name, config in configs.items()}
    artifacts = {name: config["artifact"] for name, config in whole.items()}
    return {"normalized": whole, "artifact": artifacts, "exposures": exposures, "opCount": len(configs)}


def _profile_view(profile: OperationProfile) -> dict[str, Any]:
    refs = [_ref_view(ref) for ref in profile.blocks]
    blocks = [{"id": ref.block.block_id, "name": ref.block.name, "version": ref.block.version,
               "enabled": ref.block.enabled, "ops": [one.id for one in ref.block.operations],
               "opCount": len(ref.block.operations)} for ref in profile.blocks]  # fmt: skip
    head = {"name": profile.name, "enabled": profile.enabled, "executionMode": profile.execution_mode.value,
            "sessionId": profile.session_id, "refs": refs}  # fmt: skip
    ops = [one["ops"] for one in blocks]
    return {"profile": head, "profiles": [head], "refs": refs, "blocks": blocks, "blockCount": len(blocks),
            "refCount": len(refs), "name": profile.name, "ops": [name for one in ops for name in one]}  # fmt: skip


def _ref_view(ref: BlockRef) -> dict[str, Any]:
    return {"block": ref.block.block_id, "enabled": ref.enabled, "order": ref.order}


def _respelled(content: Any) -> Any:
    """The documents' spelling of a bundle in the vectors' short form: refs, blocks with ops."""
    if not isinstance(content, dict):
        return content
    head = content.get("profile", content)
    blocks = content.get("blocks", [])
    if isinstance(head, dict) and "refs" in head:
        refs = [{**_without(ref, "block"), "blockId": ref["block"]} for ref in head["refs"]]
        head = {
            "profileId": head.get("id", head.get("name")),
            **_without(head, "refs", "id"),
            "blockRefs": refs,
        }
    if isinstance(blocks, dict):
        blocks = [block_json(name, block) for name, block in blocks.items()]
    elif all(isinstance(block, dict) and "ops" in block for block in blocks):
        blocks = [block_json(block.get("id", "B"), _without(block, "id")) for block in blocks]
    if isinstance(head, dict) and "ops" in head:
        head = {**_without(head, "ops"), "operations": list(map(operation, head["ops"]))}
    return {**content, "profile": head, "blocks": blocks} if "profile" in content else head


def _without(value: dict[str, Any], *names: str) -> dict[str, Any]:
    return {key: one for key, one in value.items() if key not in names}
