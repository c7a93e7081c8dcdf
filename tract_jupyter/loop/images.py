"""The budget of a turn for images in the results of calls.

The user did not choose these images, and each later request of the conversation sends them again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tract_jupyter.models import size_text

if TYPE_CHECKING:
    from collections.abc import Collection

    from tract_jupyter.loop.answers import CallAnswer
    from tract_jupyter.models import Attachment

IMAGES_OF_TURN: Final = 6
"""The images of one turn, by default. Each is at most 1,600 tokens."""
BYTES_OF_TURN: Final = 4_000_000
"""The bytes of all images of one turn."""


class ImageBudget:
    """The images that the rest of a turn may send.

    Args:
        most: the number of images of the turn; 0 for none.
        earlier: the images that the turn sent before it was resumed.
    """

    def __init__(self, most: int, earlier: Collection[Attachment] = ()) -> None:
        self._most = most
        self._left = most - len(earlier)
        self._bytes = BYTES_OF_TURN - sum(image.size for image in earlier)

    def fit(self, answer: CallAnswer) -> CallAnswer:
        """Return an answer with the images that may be sent, and with a note about the others."""
        from tract_jupyter.loop.answers import with_images
        from tract_jupyter.prompts import IMAGES_OFF, over_budget

        kept = []
        for image in answer.images:
            if self._left > 0 and image.attachment.size <= self._bytes:
                kept.append(image)
                self._left -= 1
                self._bytes -= image.attachment.size
        why = over_budget(self._most, size_text(BYTES_OF_TURN)) if self._most > 0 else IMAGES_OFF
        return with_images(answer, tuple(kept), why)
