"""Profiles as JSON that can be sent to somebody else: the profile, and the blocks that it refers to (X11).

Nothing runs when a bundle is imported, and nothing that is there is overwritten: what has the same id gets another.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.exceptions import ProfileError
from tract_jupyter.runs.profile.validate import read_profile

if TYPE_CHECKING:
    from collections.abc import Collection

    from tract_jupyter.runs.kinds.registry import KindRegistry
    from tract_jupyter.runs.profile.model import OperationProfile


BUNDLE: Final = "operation_profile_bundle"
VERSION: Final = 2
_OLD_BLOCK: Final = "main"
_OLD_NAMES: Final = {"operationProfileSessionId": "sessionId"}


def export_bundle(profile: OperationProfile) -> dict[str, Any]:
    """Return the JSON of a profile with all that it needs; `import_bundle` gives the same profile."""
    head = profile.model_copy(update={"blocks": ()}).to_dict()
    refs = [
        {"blockId": ref.block.block_id, "order": ref.order, "enabled": ref.enabled} for ref in profile.blocks
    ]
    blocks = [ref.block.to_dict() for ref in profile.blocks]
    return {"type": BUNDLE, "version": VERSION, "profile": {**head, "blockRefs": refs}, "blocks": blocks}


def import_bundle(
    given: object, *, taken: Collection[str] = (), replace: bool = False, kinds: KindRegistry | None = None
) -> OperationProfile:
    """Read a bundle, or a single profile from before there were blocks, which becomes one of one block.

    Args:
        given: JSON. What it says is not trusted: it is checked like what a person writes.
        taken: the ids of profiles that are there already.
        replace: keep the id although it is taken, so that saving replaces that profile; otherwise it gets another one
            (`diary-2`), and a session of its own.
        kinds: those that check parameters; None for all there are.

    Raises:
        ProfileError: it is not a bundle, of an unknown version, or breaks rules; with all that is wrong.
    """
    if not isinstance(given, dict):
        raise _refused("bundle_type", "it is not a JSON object: give what export_bundle returned")
    profile = _from_bundle(given) if given.get("type") == BUNDLE else _from_single(given)
    imported = read_profile(profile, kinds=kinds)
    if replace or imported.profile_id not in taken:
        return imported
    name = _free(imported.profile_id, taken)
    names = {"profile_id": name} | ({"name": name} if imported.name == imported.profile_id else {})
    return imported.with_new_session().model_copy(update=names)


def _from_bundle(given: dict[str, Any]) -> dict[str, Any]:
    version = given.get("version")
    if version != VERSION or isinstance(version, bool):
        raise _refused(
            "bundle_version",
            f"version {version!r} is not known, only {VERSION}: export it again with a program of this version",
        )
    head, blocks = given.get("profile"), given.get("blocks", [])
    if not isinstance(head, dict) or not isinstance(blocks, list):
        raise _refused("bundle_content", "it holds no profile, or its blocks are not a list")
    head = _renamed(head)
    refs = head.pop("blockRefs", [])
    named = [one for one in blocks if isinstance(one, dict) and isinstance(one.get("blockId"), str)]
    by_id = {one["blockId"]: one for one in named}
    if len(by_id) != len(blocks):
        raise _refused("duplicate_block", "two of its blocks have one id, or a block has none")
    if not isinstance(refs, list):
        raise _refused("bundle_content", "the profile's blockRefs are not a list")
    return {**head, "blocks": [_resolved(ref, by_id) for ref in refs]}


def _resolved(ref: object, blocks: dict[Any, Any]) -> dict[str, Any]:
    name = ref.get("blockId") if isinstance(ref, dict) else None
    if not isinstance(ref, dict) or not isinstance(name, str) or name not in blocks:
        raise _refused(
            "unknown_block", f"the profile refers to block {name!r}, which the bundle does not hold"
        )
    return {**{key: value for key, value in ref.items() if key != "blockId"}, "block": blocks[name]}


def _from_single(given: dict[str, Any]) -> dict[str, Any]:
    """Read a profile with operations of its own as one of one block."""
    inner = given.get("profile")
    head = _renamed(inner if isinstance(inner, dict) else given)
    if "type" in given or not isinstance(head.get("operations"), list):
        raise _refused(
            "bundle_type", f"it is neither of type {BUNDLE!r} nor a profile with a list of operations"
        )
    head.setdefault("profileId", head.get("name"))
    operations = head.pop("operations")
    block = {"blockId": _OLD_BLOCK, "name": head.get("name"), "operations": operations}
    return {**head, "blocks": [{"block": block, "order": 0}]}


def _renamed(head: dict[str, Any]) -> dict[str, Any]:
    return {_OLD_NAMES.get(name, name): value for name, value in head.items()}


def _free(name: str, taken: Collection[str]) -> str:
    number = 2
    while f"{name}-{number}" in taken:
        number += 1
    return f"{name}-{number}"


def _refused(rule: str, message: str) -> ProfileError:
    return ProfileError([(rule, "bundle", message)])
