"""What a tract says about runs, without a model."""

from types import SimpleNamespace

from tests.notebook.runs.examples import FIVE, event, operation, run
from tract_jupyter.exceptions import RunFailedError, UnknownRunError


class Profiles:
    """Two profiles, none of them active at first."""

    def __init__(self):
        warning = SimpleNamespace(rule="unread", where="style.artifact", message="nobody reads art.style")
        self.kept = {
            "research": profile(
                "research", operation("guard", required=True), operation("style"), lint=[warning]
            ),
            "my diary": profile("my diary"),
        }
        self.active = None

    def list(self):
        return [*self.kept.values()]

    def get(self, name):
        if name not in self.kept:
            raise UnknownRunError(f"there is no profile {name!r}")
        return self.kept[name]

    def activate(self, name):
        self.active = self.get(name).name

    def deactivate(self):
        self.active = None


def profile(name, *operations, lint=()):
    return SimpleNamespace(
        name=name, enabled=True, description=None, version=2, session_id="default", fingerprint="f" * 64,
        execution_mode=SimpleNamespace(value="concurrent"), lint=lambda: lint,
        compile=lambda: SimpleNamespace(operations=operations),
    )  # fmt: skip


class Runs:
    """Answers whatever it is asked, and keeps what it was asked in `asked`."""

    def __init__(self):
        self.kept = [run(*FIVE), run(run_id="7f3a0000", status="failed", failed_type="main_llm", reply=None)]
        self.asked = []
        self.fails = False

    def runs(self, limit=20):
        return self.kept[:limit]

    def run(self, run_id):
        found = [one for one in self.kept if one.run_id == run_id]
        if not found:
            raise UnknownRunError(f"this tract has no run {run_id!r}")
        return found[0]

    def chat(self, text, **options):
        self.asked.append((text, options))
        return self._answered(options["on_event"])

    def generate(self, **options):
        self.asked.append((None, options))
        return self._answered(options["on_event"])

    def _answered(self, on_event):
        on_event(event("run.started", operations=()))
        on_event(event("run.finished"))
        if self.fails:
            failed = run(*FIVE, status="failed", failed_type="main_llm", reply=None)
            raise RunFailedError("run 7f3a9c1e failed in the main call", failed)
        return SimpleNamespace(text="The survey.", run=run(*FIVE))
