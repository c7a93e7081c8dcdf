"""A script that somebody else wrote, before it runs in the kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tract_jupyter.hooks.pending import Pending
from tract_jupyter.review.fingerprint import fingerprint
from tract_jupyter.review.request import findings_text

if TYPE_CHECKING:
    from tract_jupyter.review.request import CodeBlock, ValueTable


class PendingScript(Pending):
    """A script that is to run in the kernel, where nothing contains it. Nothing of it runs before it is approved.

    Args:
        code: all of it.
        notebook_id: whose variables it would see.
        options: see `Pending`.
    """

    in_view = frozenset({"code"})

    def __init__(self, code: str, *, notebook_id: str, **options: Any) -> None:
        super().__init__("run_script", fields={"code": code, "notebook_id": notebook_id}, **options)

    @property
    def title(self) -> str:
        """Names the notebook."""
        return f"Run a script in the kernel, with the variables of {self.fields['notebook_id']!r}"

    @property
    def fingerprint(self) -> str:
        """Binds all of the code, and where it would run."""
        return fingerprint("script", "kernel", "", self.fields)

    def why(self) -> str:
        """Why a person is asked."""
        found = findings_text(self.code_blocks())
        reach = "In this kernel it can do whatever you can."
        calls = "Its calls of tools that do not only read are asked about when it comes to them."
        return f"{self.actor} wrote this code. {reach} {calls} {found}".rstrip()

    def summary(self) -> str:
        """What it is."""
        return "Python code that calls tools, run as a whole."

    def code_blocks(self) -> tuple[CodeBlock, ...]:
        """The code, with what the analysis says."""
        advice, tools = self.tract.operations.advice, self.tract.executor.tools()
        return (advice.code_block("script", self.fields["code"], tools=tools),)

    def tables(self) -> tuple[ValueTable, ...]:
        """None: the code says it all."""
        return ()
