"""The figures of a script as PNG images for a model.

The notebook collects the figures that it displays. Other open figures are drawn here.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.exceptions import AttachmentError
from tract_jupyter.models import AttachedFile, counted, cut, image_pixels
from tract_jupyter.prompts import FIGURES, LEFT_OUT, NOT_SENDABLE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tract_jupyter.rehearsal import Effects
    from tract_jupyter.scripts.run import ScriptRun

_LONGEST_EDGE: Final = 1_568
"""Pixels. Providers scale larger images down to it."""
_LARGEST: Final = 1_000_000
"""Bytes of one image."""
_LONGEST_NAMES: Final = 500  # characters of the names in a note

_NO_VERSION: Final = {"Software": None}
"""The image does not name the version of Matplotlib."""


def keep_figures(run: ScriptRun) -> None:
    """Keep the figures of a finished script that the model may see. Add notes about figures and their variables."""
    drawn, run.drawn = run.drawn, []  # a result must not keep figures alive
    if run.is_kept and run.effects is not None:
        run.figures = png_images(run.effects)
        if run.effects.left_out:
            run.notes = (
                *run.notes,
                LEFT_OUT.format(names=cut(", ".join(run.effects.left_out), _LONGEST_NAMES)),
            )
    count = len(run.figures) + len(drawn)
    if not count:
        return
    note = FIGURES.format(count=counted(count, "figure"))
    if run.author != "user":  # the result of a user's script goes to no model
        run.figures += filter(None, map(_png, drawn))
        if (
            run.backend == "kernel" and not run.is_kept
        ):  # a rehearsal may have written anything, so its images are not decoded
            run.figures = list(filter(None, map(_scaled, run.figures)))
        left = count - len(figure_files(run.figures))
        note += NOT_SENDABLE.format(count=left) if left else ""
    run.notes = (*run.notes, note)


def png_images(effects: Effects) -> list[bytes]:
    """Return the PNG images in the output of a copy. They may have any content."""
    images = [output.data.get("image/png") for output in effects.outputs]
    return [image for image in images if isinstance(image, bytes)]


def figure_files(images: Iterable[bytes]) -> tuple[AttachedFile, ...]:
    """Return PNG images as attachments. Leave out damaged and too large ones.

    Only their headers are read, so the images may come from code without approval.
    """
    files: list[AttachedFile] = []
    for image in images:
        with suppress(AttachmentError):
            if len(image) <= _LARGEST:
                files.append(AttachedFile.of(f"figure {len(files) + 1}.png", image))
    return tuple(files)


def _png(figure: Any) -> bytes | None:
    """Draw a figure of an approved script; None if its code raises an error."""
    buffer = BytesIO()
    try:
        longest = max(figure.get_size_inches())
        figure.savefig(
            buffer, format="png", dpi=min(figure.dpi, _LONGEST_EDGE / longest), metadata=_NO_VERSION
        )
    except Exception:  # noqa: BLE001 # it is a script's own object
        return None
    return buffer.getvalue()


def _scaled(image: bytes) -> bytes | None:
    """Return an image that is small enough; None if it cannot be. Matplotlib has loaded Pillow."""
    pixels = image_pixels(image)
    if pixels is not None and max(pixels) <= _LONGEST_EDGE and len(image) <= _LARGEST:
        return image
    pillow: Any = sys.modules.get("PIL.Image")
    if pillow is None:
        return None
    buffer = BytesIO()
    try:
        with pillow.open(BytesIO(image), formats=["PNG"]) as opened:
            opened.thumbnail((_LONGEST_EDGE, _LONGEST_EDGE))
            opened.save(buffer, "PNG", optimize=True)
    except Exception:  # noqa: BLE001 # a display may have any content
        return None
    return buffer.getvalue() if buffer.tell() <= _LARGEST else None
