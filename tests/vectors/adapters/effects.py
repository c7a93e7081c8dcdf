"""Vectors of effects: what a hook allows, and what a value becomes."""

from __future__ import annotations

from typing import Any

from tests.runs.running import check_effect, check_effects
from tract_jupyter.runs import ArtifactSpec, Hook, ResultError, effects_of

Given = dict[str, Any]


def effect_policy(given: Given) -> Given:
    return _told(check_effect(given["effect"], Hook(given["hook"])))


def operation_effects_policy(given: Given) -> Given:
    return _told(check_effects(given["effects"], Hook(given["hook"])))


def exposure_effects(given: Given) -> Given:
    settings = {"tag": "t", **given.get("artifact", {})}
    settings.setdefault("exposures", given.get("exposures") or [])
    effects = effects_of(ArtifactSpec.from_dict(settings), given.get("value", "v"))
    told = [one.to_dict() for one in effects]
    texts = [one[name] for one in told for name in ("content", "payload", "text") if name in one]
    return {
        "effects": [one.type for one in effects],
        "values": told,
        "details": told,
        "texts": texts,
        "exposedText": texts[0] if texts else None,
    }


def _told(error: ResultError | None) -> Given:
    return {"ok": True} if error is None else {"ok": False, "code": error.code}
