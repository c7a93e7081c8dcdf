"""Whose run it is: a snapshot says what a resume executes, so only those that this user has begun are gone on with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from tract_jupyter.review.trust import Signer
    from tract_jupyter.runs.events import RunStarted

_TRUST_KIND: Final = "run_snapshot"


def signed(signer: Signer, run_id: str, snapshot: RunStarted) -> RunStarted:
    """The snapshot with this user's signature, which holds for this run only.

    Raises:
        TrustError: it cannot be signed.
        ContentError: it has no JSON form.
    """
    signature = signer.sign(_TRUST_KIND, _signed(run_id, snapshot))
    return snapshot.model_copy(update={"signature": signature})


def is_signed(signer: Signer, run_id: str, snapshot: RunStarted) -> bool:
    """Whether this user began the run, with exactly this snapshot.

    Raises:
        TrustError: the signing secret cannot be read.
    """
    return signer.verify(_TRUST_KIND, _signed(run_id, snapshot), snapshot.signature)


def _signed(run_id: str, snapshot: RunStarted) -> list[Any]:
    return [run_id, snapshot.model_copy(update={"signature": ""}).to_dict()]
