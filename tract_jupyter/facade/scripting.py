"""Scripts that call tools."""

from __future__ import annotations

from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from tract_jupyter.facade.tooling import Tooling
from tract_jupyter.models.text import safe_repr
from tract_jupyter.scripts.call_log import StoredLog
from tract_jupyter.scripts.runner import Scripts, instructions
from tract_jupyter.storage.journal import ScriptCallRows

if TYPE_CHECKING:
    from tract_jupyter.scripts.limits import ScriptLimits
    from tract_jupyter.scripts.pendings import PendingScriptCall
    from tract_jupyter.scripts.result import ScriptResult
    from tract_jupyter.scripts.runner import Backend
    from tract_jupyter.toolkit.profiles import ToolProfile


class Scripting(Tooling):
    """The part of `Tract` that runs scripts."""

    @cached_property
    def scripts(self) -> Scripts:
        """Runs scripts, and keeps their namespaces and results."""
        rows = ScriptCallRows(self.tract_id)
        stored_log = partial(StoredLog, self._database, rows, self.signer)
        return Scripts(lambda: self.tools, self.executor, self, stored_log, self._record_script)

    def run_script(
        self,
        code: str,
        *,
        backend: Backend = "kernel",
        notebook_id: str | None = None,
        fresh: bool = False,
        limits: ScriptLimits | None = None,
        anew: bool = False,
    ) -> ScriptResult:
        """Run Python code that calls tools.

        In the kernel it runs in this thread and this process, and nothing contains it: that is for your own code, or
        for code that you read. The sandbox is a process of its own, without files, network or packages, whose only
        way out are the tools: that is for what a model wrote and nobody approved.

        It finds `tools`, `ToolDenied` and `ToolExecutionError` in its namespace. Its tool calls are made by the actor
        `script:<hash>`, so that those which do not only read are asked about.

        Args:
            code: plain Python; `await` may stand at the top level.
            backend: `kernel` or `sandbox`.
            notebook_id: whose variables it sees, such as `"main"`. In a notebook the user's own, if left out.
            fresh: forget that notebook's variables first.
            limits: what it may take.
            anew: make all calls. If left out, those that the same code has made in the kernel, in a run that did not
                complete, are answered as they were then.

        Returns:
            What it showed, its value, its calls, and the error if it failed.

        Raises:
            ScriptSyntaxError: it is no Python; nothing ran.
            ScriptFailedError: it cannot be run like this; nothing ran.
        """
        return self.scripts.run(
            code, backend=backend, notebook_id=notebook_id, fresh=fresh, limits=limits, anew=anew
        )

    def get_system_instructions(self, *, profile: str | ToolProfile = "full", max_tokens: int = 4_000) -> str:
        """What a model is told about scripts: how to write them, and the signatures of its tools.

        Args:
            profile: which tools it has.
            max_tokens: of the text. Where that is too little, descriptions are left out first, then the last tools.
                Estimates are not corrected, so that the text stays the same, and with it what a provider caches.

        Raises:
            ContentError: there is no such profile, or the bound is too narrow for any of it.
        """
        return instructions(
            self.toolset(profile=profile).tools(), self._commits.counter.count_text, max_tokens
        )

    def _go_on(self, decided: PendingScriptCall) -> ScriptResult:
        """Take up a paused script, and print what it showed: for the record of the decision."""
        result = self.scripts.go_on(decided)
        value = [] if result.value is None else [safe_repr(result.value)]
        told = [
            *filter(None, [result.text.rstrip()]),
            *value,
            f"Script {result.status}: {result.call_count} tool calls",
        ]
        print("\n".join(told))  # noqa: T201 # whoever carries the decision out keeps it
        return result

    def _record_script(self, result: ScriptResult) -> None:
        """Store what ran, as an event."""
        data: dict[str, Any] = {
            "script_hash": result.script_hash,
            "author": result.author,
            "code": result.code,
            "backend": result.backend,
            "notebook_id": result.notebook_id,
            "status": result.status.value,
            "error": None if result.error is None else f"{result.error.name}: {result.error.message}"[:2_000],
            "tool_calls": result.call_count,
            "replayed_calls": result.replayed_count,
            "seconds": round(result.seconds, 6),
            "tokens_saved": result.savings.saved,
        }
        with self._database.write() as connection:
            self._events.append(connection, "script", f"script:{result.script_hash[:12]}", data)
