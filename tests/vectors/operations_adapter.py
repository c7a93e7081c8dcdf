"""Runs a vector of `operations.json` against the package's public API. It translates, it never decides."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_AREAS = {
    "schedule": ["orchestrate", "operation_runs"],
    "outcome": ["run_outcome"],
    "phase": ["execute_phase", "flow"],
    "activation": ["activation_steps", "activation_replay"],
    "commit": ["commit_phase"],
    "prompt": ["apply_prompt_effects", "finalize_prompt", "normalize_role", "prompt_system_view"],
    "effects": ["effect_policy", "operation_effects_policy", "exposure_effects"],
    "artifacts": [
        "artifact_upserts",
        "artifact_write_error",
        "persisted_artifact_upserts",
        "session_key",
        "artifact_view",
    ],
    "turn": ["persist_user_rewrite", "two_phase_user_rewrite"],
    "profile": ["validate_block", "compile_profile", "validate_profile"],
    "template": ["render"],
}
# whatever else a vector of the area drives
_OTHERS = {"artifact": "artifact_view"}
_AREA_OF = {fn: area for area, names in _AREAS.items() for fn in names}


def run_vector(vector: dict[str, Any]) -> dict[str, Any]:
    """Return what the vector's `expect` is compared with: each of its keys must be here and equal."""
    fn = vector["fn"] if vector["fn"] in _AREA_OF else _OTHERS.get(vector.get("area", ""), vector["fn"])
    module = import_module(f"tests.vectors.adapters.{_AREA_OF[fn]}")
    found: dict[str, Any] = getattr(module, fn)(vector["given"])
    return found
