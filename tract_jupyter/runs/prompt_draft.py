"""A prompt while effects are applied to it: each in constant time, wherever it goes."""

from __future__ import annotations

from collections import Counter, deque
from typing import TYPE_CHECKING

from tract_jupyter.runs.effect_types import AppendAfterLastUser, InsertAtDepth, SystemUpdate
from tract_jupyter.runs.model import Piece, RunMessage
from tract_jupyter.runs.terms import Role

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tract_jupyter.runs.effect_types import PromptEffect, UserReplaceText


class PromptDraft:
    """Messages that effects insert into and change. It keeps track of its two anchors.

    Args:
        messages: as they are before; not changed.
        user_key: which of them is the current user's.
    """

    def __init__(self, messages: Sequence[RunMessage], user_key: str | None) -> None:
        self._messages = list(messages)
        self._keys = {one.key for one in messages}
        self._inserted: Counter[str] = Counter()
        self._user = _place(one.key == user_key for one in messages) if user_key is not None else None
        self._system = _place(one.role == Role.SYSTEM for one in messages)
        # the text of the first system message in pieces, joined once at the end
        self._pieces: deque[Piece] | None = None
        self._changed_by: str | None = None

    def apply(self, effect: PromptEffect | UserReplaceText, label: str) -> None:
        """Apply an effect of the operation `label`."""
        if isinstance(effect, SystemUpdate):
            self._update_system(effect, label)
        elif isinstance(effect, AppendAfterLastUser):
            # right behind the user's message, so that the later one stands closer (G13); without one: the tail (G18)
            place = len(self._messages) if self._user is None else self._user + 1
            self._insert(place, effect.role, effect.content, label)
        elif isinstance(effect, InsertAtDepth):
            self._insert(self._at_depth(effect.depth_from_end), effect.role, effect.content, label)
        elif self._user is not None:
            self._rewrite_user(self._user, effect.text, label)

    def messages(self) -> tuple[RunMessage, ...]:
        """The messages now."""
        self._join_pieces()
        return tuple(self._messages)

    def _at_depth(self, depth: int) -> int:
        """The place counted from the end of the draft as it is (G14), never before the first system message (G15)."""
        first = 0 if self._system is None else self._system + 1
        return max(len(self._messages) - abs(depth), first)

    def _insert(self, place: int, role: str, content: str, label: str) -> None:
        becomes_first = role == Role.SYSTEM and (self._system is None or place <= self._system)
        if becomes_first:
            self._join_pieces()
        self._messages.insert(
            place, RunMessage(role=role, content=content, key=self._new_key(label), label=label)
        )
        if self._user is not None and place <= self._user:
            self._user += 1
        if becomes_first:
            self._system = place
        elif self._system is not None and place <= self._system:
            self._system += 1

    def _new_key(self, label: str) -> str:
        while True:
            self._inserted[label] += 1
            key = f"{label}#{self._inserted[label]}"
            if key not in self._keys:
                self._keys.add(key)
                return key

    def _update_system(self, effect: SystemUpdate, label: str) -> None:
        if self._system is None:  # G16
            self._insert(0, Role.SYSTEM, effect.payload, label)
            return
        if self._pieces is None:
            before = self._messages[self._system]
            self._pieces = deque(before.pieces or (Piece(text=before.content, label=before.label),))
        piece = Piece(text=effect.payload, label=label)
        if effect.mode == "prepend":
            self._pieces.appendleft(piece)
        else:
            if effect.mode == "replace":
                self._pieces.clear()
            self._pieces.append(piece)
        self._changed_by = label

    def _join_pieces(self) -> None:
        if self._pieces is None or self._system is None:
            return
        told = tuple(piece for piece in self._pieces if piece.text)
        changed = {
            "content": "".join(piece.text for piece in told),
            "label": self._changed_by,
            "pieces": told if len({piece.label for piece in told}) > 1 else (),
        }
        self._messages[self._system] = self._messages[self._system].model_copy(update=changed)
        self._pieces = None

    def _rewrite_user(self, place: int, text: str, label: str) -> None:
        changed = {"content": text, "label": label, "pieces": ()}
        self._messages[place] = self._messages[place].model_copy(update=changed)


def _place(found: Iterable[bool]) -> int | None:
    """The index of the first true one."""
    return next((index for index, one in enumerate(found) if one), None)
