"""Canonical JSON, and the hashes made of it.

Two values that mean the same give the same bytes: sorted keys, no spaces, UTF-8, no NaN. What has no such form
(a lone surrogate, an arbitrary object) is refused rather than written in a way that could not be read back.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from tract_jupyter.exceptions import ContentError


def canonical_json(value: Any) -> str:
    """Return the canonical JSON text of `value`.

    Raises:
        ContentError: the value has no JSON form, or holds text that is no Unicode.
    """
    try:
        text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
        text.encode()
    except UnicodeEncodeError as error:
        raise ContentError(
            f"the text has a lone surrogate ({ascii(error.object[error.start])}) and is no valid Unicode; "
            "repair it with text.encode('utf-8', 'replace').decode()"
        ) from None
    except RecursionError:
        raise ContentError("the value is nested too deeply, or contains itself") from None
    except (TypeError, ValueError) as error:
        raise ContentError(
            f"the value has no JSON form: {error}; use strings, numbers, booleans, None, lists and dicts"
        ) from None
    return text


def digest(value: Any) -> str:
    """Return the sha256 of the canonical JSON of `value`, as 64 hex digits."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()
