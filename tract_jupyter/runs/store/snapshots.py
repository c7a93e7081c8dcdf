"""Whose run it is: a snapshot says what a resume executes, so only those that this user has begun are gone on with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tract_jupyter.exceptions import ContentError
from tract_jupyter.models.canonical import canonical_json

if TYPE_CHECKING:
    from tract_jupyter.review.trust import Trust
    from tract_jupyter.runs.events import RunStarted

_TRUST_KIND: Final = "run_snapshot"


def signed(trust: Trust, run_id: str, snapshot: RunStarted) -> RunStarted:
    """The snapshot with this user's signature, which holds for this run only.

    Raises:
        TrustError: it cannot be signed.
        ContentError: it has no JSON form.
    """
    signature = trust.sign(_TRUST_KIND, _signed_text(run_id, snapshot))
    return snapshot.model_copy(update={"signature": signature})


def is_signed(trust: Trust, run_id: str, snapshot: RunStarted) -> bool:
    """Whether this user began the run, with exactly this snapshot.

    Raises:
        TrustError: the signing secret cannot be read.
    """
    try:
        return trust.verify(_TRUST_KIND, _signed_text(run_id, snapshot), snapshot.signature)
    except ContentError:  # somebody has put something else than text there
        return False


def _signed_text(run_id: str, snapshot: RunStarted) -> str:
    unsigned = snapshot.model_copy(update={"signature": ""})
    return canonical_json([run_id, unsigned.to_dict()])
