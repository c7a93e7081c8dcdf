"""Writing the effects of one commit to its target, within the target's transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tract_jupyter.exceptions import RunError, TractError
from tract_jupyter.models.text import shortened
from tract_jupyter.runs.artifacts import upserted
from tract_jupyter.runs.commit_report import Rewrite
from tract_jupyter.runs.effect_types import ArtifactUpsert, AssistantReplaceText, UserReplaceText
from tract_jupyter.runs.model import OperationError
from tract_jupyter.runs.terms import MAX_ERROR_TEXT, ErrorCode, Persistence
from tract_jupyter.runs.turn import rewritten

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tract_jupyter.runs.effect_types import Effect
    from tract_jupyter.runs.model import ArtifactView
    from tract_jupyter.runs.turn import Turn, TurnTarget


class Applying:
    """A commit while it is written. Each rewrite of a text follows the one before it (G30).

    Args:
        turn: as it stands before.
        target: what is written to.
    """

    def __init__(self, turn: Turn, target: TurnTarget) -> None:
        self._turn = turn
        self._target = target
        self._persisted: dict[str, ArtifactView] | None = None
        self._written: dict[str, None] = {}
        self.rewrites: list[Rewrite] = []

    def apply(self, effect: Effect, operation_id: str) -> OperationError | None:
        """Write what of an effect concerns the target, and return why that was refused."""
        try:
            if isinstance(effect, UserReplaceText):
                self._rewrite_user(effect.text, operation_id)
            elif isinstance(effect, AssistantReplaceText):
                self._rewrite_reply(effect.text, operation_id)
            elif isinstance(effect, ArtifactUpsert) and effect.persistence is Persistence.PERSISTED:
                self._persist(effect)
        except Exception as error:  # noqa: BLE001 # whatever a target raises is that effect's error (X06)
            return storage_error(error)
        return None

    def finish(self) -> None:
        """Write what is written once for all effects."""
        if self._written:
            persisted = self._known_artifacts()
            self._target.put_artifacts([persisted[tag] for tag in self._written])

    def _rewrite_user(self, text: str, operation_id: str) -> None:
        before, replaced = self._turn.user_text, self._turn.user_part
        part = self._target.rewrite_user(replaced, text, operation_id)
        self._note(Rewrite(
            operation_id=operation_id, target="user", before=before, after=text, replaced=replaced, part=part,
        ))  # fmt: skip

    def _rewrite_reply(self, text: str, operation_id: str) -> None:
        before, replaced = self._turn.reply, self._turn.reply_part
        if before is None:
            raise RunError("there is no reply to rewrite: the main call gave none")
        part = self._target.rewrite_reply(replaced, text, operation_id)
        self._note(Rewrite(
            operation_id=operation_id, target="reply", before=before, after=text, replaced=replaced, part=part,
        ))  # fmt: skip

    def _note(self, rewrite: Rewrite) -> None:
        self.rewrites.append(rewrite)
        self._turn = rewritten(self._turn, rewrite)

    def _persist(self, effect: ArtifactUpsert) -> None:
        if self._target.session is None:
            raise RunError(
                f"the artifact {effect.tag!r} is to be persisted, and this run has no session key; "
                "run a profile, which has one, or make the artifact run_only"
            )
        known = self._known_artifacts()
        known[effect.tag] = upserted(known.get(effect.tag), effect)
        self._written[effect.tag] = None

    def _known_artifacts(self) -> dict[str, ArtifactView]:
        """As they stand in the store now: another run may have written since this one began."""
        if self._persisted is None:
            found: Mapping[str, ArtifactView] = self._target.artifacts()
            self._persisted = dict(found)
        return self._persisted


def storage_error(error: Exception) -> OperationError:
    """What to say of a write that failed."""
    told = str(error) if isinstance(error, TractError) else f"{type(error).__name__}: {error}"
    safe = told.encode("utf-8", "replace").decode()
    return OperationError(code=ErrorCode.STORAGE, message=shortened(safe, MAX_ERROR_TEXT))
