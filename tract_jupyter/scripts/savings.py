"""The savings meter: the tokens of a script against those of the same calls made by a model, one by one.

Without a script, each call is a message of the model (name and arguments) and one back (the result), and both stay
in its context. With one, the context has the script and what it printed.
"""

from __future__ import annotations

from dataclasses import dataclass

from tract_jupyter.toolkit.savings import CHARACTERS_PER_TOKEN, TOKENS_PER_CALL


@dataclass(frozen=True, slots=True)
class Savings:
    """An estimate (about four characters a token), with its arithmetic."""

    calls: int = 0
    argument_characters: int = 0
    result_characters: int = 0
    script_characters: int = 0
    output_characters: int = 0

    @property
    def used(self) -> int:
        """Tokens that the script takes in a model's context: its text, and what it showed."""
        return (self.script_characters + self.output_characters) // CHARACTERS_PER_TOKEN

    @property
    def without(self) -> int:
        """Tokens that its calls would have taken there, made one by one."""
        said = (self.argument_characters + self.result_characters) // CHARACTERS_PER_TOKEN
        return said + self.calls * TOKENS_PER_CALL

    @property
    def saved(self) -> int:
        """The difference; negative where a script costs more than it spares."""
        return self.without - self.used

    @property
    def arithmetic(self) -> str:
        """How that comes about."""
        each = CHARACTERS_PER_TOKEN
        return (
            f"one by one ≈ {self.without:,} tokens: ({self.argument_characters:,} characters of arguments + "
            f"{self.result_characters:,} of results) / {each} + {self.calls:,} calls x {TOKENS_PER_CALL}; "
            f"as a script ≈ {self.used:,}: ({self.script_characters:,} of code + {self.output_characters:,} of "
            f"output) / {each}; saved ≈ {self.saved:,}"
        )

    def __add__(self, other: Savings) -> Savings:
        return Savings(
            self.calls + other.calls,
            self.argument_characters + other.argument_characters,
            self.result_characters + other.result_characters,
            self.script_characters + other.script_characters,
            self.output_characters + other.output_characters,
        )
