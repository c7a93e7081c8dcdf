"""What each operation of a hook is given: the hook's base draft, with the effects of its own dependencies (G20).

Nothing else leaks in: operations that run side by side see neither each other's effects nor what they wrote (R26, R62).
"""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING

from tract_jupyter.runs.conditions import value_of
from tract_jupyter.runs.effect_types import (
    PROMPT_EFFECTS,
    ArtifactUpsert,
    AssistantReplaceText,
    UserReplaceText,
)
from tract_jupyter.runs.effects import allowed_effects
from tract_jupyter.runs.model import ArtifactView, OperationContext, RunMessage
from tract_jupyter.runs.order import ready_order
from tract_jupyter.runs.terms import Hook, Role

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tract_jupyter.runs.effect_types import Effect
    from tract_jupyter.runs.model import Operation, OperationResult
    from tract_jupyter.runs.plan import Plan
    from tract_jupyter.runs.turn import Turn

REPLY_KEY = "reply"
"""The key of the reply among the messages that operations see after the main call."""


class Scene:
    """Makes the contexts of a plan's operations.

    Args:
        plan: whose hook and order count.
        base: what all of them share: the run's ids, its seed, its clock, its variables.
        turn: as it stands at the hook's start.
    """

    def __init__(self, plan: Plan, base: OperationContext, turn: Turn) -> None:
        self._turn = turn
        self._hook = plan.hook
        self._allowed = allowed_effects(plan.hook)
        self._base = base.model_copy(
            update={
                "hook": plan.hook,
                "trigger": plan.trigger,
                "policy": base.policy.model_copy(update={"allowed_effects": self._allowed}),
            }
        )
        nodes = [(one.id, one.config.order, one.config.depends_on) for one in plan.operations]
        self._place = {key: place for place, key in enumerate(ready_order(nodes)[0])}
        self._names = {
            one.id: one.config.artifact.artifact_id
            for one in plan.operations
            if one.config.artifact is not None
        }

    def context(self, operation: Operation, dependencies: Mapping[str, OperationResult]) -> OperationContext:
        """The context of one operation, from the results of its direct dependencies (R29 to R34).

        Their effects are replayed in commit order, so that what it sees is what will be committed. What can be
        changed in it is a copy: nobody else sees what an operation does to that.
        """
        done = sorted((key for key, one in dependencies.items() if one.is_done), key=self._position)
        effects = [
            (key, effect) for key in done for effect in dependencies[key].effects if self._is_allowed(effect)
        ]
        prompt = self._turn.prompt.apply_all(
            (key, one) for key, one in effects if isinstance(one, (*PROMPT_EFFECTS, UserReplaceText))
        )
        reply = self._reply(one for _, one in effects)
        return self._base.model_copy(
            update={
                "operation_id": operation.id,
                "messages": (*map(_own, prompt.messages), *_as_message(reply)),
                "user_key": prompt.user_key,
                "reply": reply,
                "artifacts": self._artifacts(effects),
                "by_operation": {key: deepcopy(value_of(dependencies[key])) for key in done},
                "variables": deepcopy(self._base.variables),
            }
        )

    def _position(self, key: str) -> tuple[int, str]:
        return self._place.get(key, len(self._place)), key

    def _is_allowed(self, effect: Effect) -> bool:
        """What this hook forbids is never committed, so nobody sees it either."""
        return effect.type in self._allowed

    def _reply(self, effects: Iterable[Effect]) -> str | None:
        if self._hook is Hook.BEFORE:
            return None
        texts = [one.text for one in effects if isinstance(one, AssistantReplaceText)]
        return texts[-1] if texts else self._turn.reply

    def _artifacts(self, effects: Iterable[tuple[str, Effect]]) -> dict[str, ArtifactView]:
        """By tag; what a dependency wrote also by the id that its artifact has, if any (X09)."""
        writes = [(key, one) for key, one in effects if isinstance(one, ArtifactUpsert)]
        view = self._turn.artifacts.upsert(one for _, one in writes).view
        named = {name: view[one.tag] for key, one in writes if (name := self._names.get(key)) is not None}
        return {**named, **view}


def _as_message(reply: str | None) -> tuple[RunMessage, ...]:
    return () if reply is None else (RunMessage(role=Role.ASSISTANT, content=reply, key=REPLY_KEY),)


def _own(message: RunMessage) -> RunMessage:
    return message.model_copy(update={"extra": deepcopy(message.extra)})
