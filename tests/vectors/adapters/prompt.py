"""Vectors of the prompt."""

from __future__ import annotations

from typing import Any

from tract_jupyter.runs import EFFECTS, Prompt

Given = dict[str, Any]
_OF_PROMPT = (
    "prompt.append_after_last_user",
    "prompt.system_update",
    "prompt.insert_at_depth",
    "turn.user.replace_text",
)


def plain_messages(prompt: Prompt) -> list[dict[str, str]]:
    return [{"role": one.role, "content": one.content} for one in prompt.messages]


def apply_prompt_effects(given: Given) -> Given:
    prompt = Prompt.of(given["messages"])
    for place, one in enumerate(given.get("effects") or ()):
        effect = EFFECTS.validate_python(one)
        # the others change something else than the prompt
        if effect.type in _OF_PROMPT:
            prompt = prompt.apply(effect, f"operation {place}")
    return {"messages": plain_messages(prompt)}


def finalize_prompt(given: Given) -> Given:
    prompt = Prompt.of(given["messages"])
    names = ("hash", "digest", "sha256", "promptHash")
    return {"messages": prompt.provider_messages(), **dict.fromkeys(names, prompt.digest)}


def provider_role(role: str) -> str:
    (sent,) = Prompt.of([{"role": role, "content": "x"}]).provider_messages()
    return str(sent["role"])


def normalize_role(given: Given) -> Given:
    if "roles" in given:
        roles = [provider_role(one) for one in given["roles"]]
        by_role = dict(zip(given["roles"], roles, strict=True))
        return {**by_role, **dict.fromkeys(("roles", "normalized", "result", "values"), roles)}
    role = provider_role(given["role"])
    return dict.fromkeys(("role", "normalized", "result", "value"), role)


def prompt_system_view(given: Given) -> Given:
    text = Prompt.of(given["messages"]).system_text
    return dict.fromkeys(("promptSystem", "system", "text", "value", "view", "result"), text)
