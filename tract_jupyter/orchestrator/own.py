"""`Tract.orchestrator`: the orchestrator of a tract, whose settings are saved with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.models import warn
from tract_jupyter.orchestrator.config import OrchestratorConfig, save_config, stored_config
from tract_jupyter.orchestrator.orchestrator import Orchestrator

if TYPE_CHECKING:
    from tract_jupyter.review import Settings


_POLICY: Final = "orchestrator"
"""The name of the policy that the triggers of the settings make."""


class TractOrchestrator(Orchestrator):
    """The orchestrator of a tract. Its settings are signed and saved with the tract; functions among them are not.

    Args:
        tract: the tract.
        settings: where they are saved.

    Attributes:
        problem: why the saved settings are not used; empty if they are.
    """

    def __init__(self, tract: Any, settings: Settings) -> None:
        config, self.problem = stored_config(settings)
        super().__init__(tract, config)
        self._settings = settings
        if self.problem:
            warn(self.problem, UserWarning)

    @property
    def config(self) -> OrchestratorConfig:
        """How it works: assign an `OrchestratorConfig` to save it with the tract.

        Its triggers are the policy `orchestrator` of `t.policies`. Functions (`on_proposal`, `on_step`) are not saved:
        they count as long as this tract is open.
        """
        return self._config

    @config.setter
    def config(self, config: OrchestratorConfig) -> None:
        """Save other settings, and work by them from now on.

        Raises:
            OrchestratorError: one of them cannot be used or saved.
            CodeDecisionError: what runs on behalf of a model wants to raise the level.
            StoreError: they cannot be stored.
            TrustError: they cannot be signed.
        """
        save_config(self._settings, self._allowed(config))
        self._config, self.problem = config, ""
        policies = self._tract.policies
        if config.triggers:
            level = config.autonomy_ceiling
            policies.add("orchestrate", name=_POLICY, when=config.triggers, autonomy=level)
        elif any(row.name == _POLICY for row in policies.list()):
            policies.remove(_POLICY)
