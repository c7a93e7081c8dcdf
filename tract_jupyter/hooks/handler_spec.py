"""A handler as data: the body of a function that is given the pending and decides about it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from tract_jupyter.exceptions import SpecError
from tract_jupyter.hooks.dynamic.action import check_code
from tract_jupyter.hooks.dynamic.check import check_name
from tract_jupyter.hooks.dynamic.spec import MAX_SPEC_BYTES, ActionDef
from tract_jupyter.models.canonical import digest


@dataclass(frozen=True)
class HandlerSpec:
    """A handler of one operation.

    Attributes:
        operation: what it decides about; `"*"` for everything.
        name: what it goes by.
        code: the body of `def name(pending)`, kept to the letter.
        description: one line.
    """

    operation: str
    name: str
    code: str
    description: str = ""

    @property
    def action(self) -> ActionDef:
        """The code as an action without parameters, which is how it is checked, shown and compiled."""
        return ActionDef(self.name, self.description, {}, self.code)

    @property
    def spec_hash(self) -> str:
        """sha256 of the canonical form."""
        return digest(asdict(self))

    def checked(self) -> HandlerSpec:
        """Check everything without making anything of it.

        Raises:
            SpecError: a part is no text, the name is none, or the code would not compile.
        """
        for part, value in asdict(self).items():
            if not isinstance(value, str):
                raise SpecError(f"the {part} of a handler is a text, not {type(value).__name__}")
        check_name("a handler", self.name, reserved=frozenset({"pending"}))
        if len(self.code.encode("utf-8", "replace")) > MAX_SPEC_BYTES:
            raise SpecError(f"the handler {self.name!r} is too long; {MAX_SPEC_BYTES:,} bytes are the most")
        check_code(self.action)
        return self

    def to_json(self) -> str:
        """The text of a handler: what is signed and stored."""
        return json.dumps(asdict(self), separators=(",", ":"), ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> HandlerSpec:
        """Read what `to_json` made.

        Raises:
            SpecError: it is something else.
        """
        try:
            data: Any = json.loads(text)
            return cls(**data).checked()
        except (ValueError, TypeError, RecursionError) as error:
            raise SpecError(f"it is no handler: {error}") from None
