"""`Tract.orchestrator`: the orchestrator of a tract, with saved settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.models import warn
from tract_jupyter.orchestrator.config import OrchestratorConfig, save_config, stored_config
from tract_jupyter.orchestrator.orchestrator import Orchestrator

if TYPE_CHECKING:
    from tract_jupyter.review import Settings


_POLICY: Final = "orchestrator"
"""The name of the policy for the triggers in the settings."""


class TractOrchestrator(Orchestrator):
    """The orchestrator of a tract. Its settings are signed and saved in the tract, except functions.

    Args:
        tract: the tract.
        settings: the storage of the settings.

    Attributes:
        problem: the reason why the saved settings are not used; empty if they are.
    """

    def __init__(self, tract: Any, settings: Settings) -> None:
        config, self.problem = stored_config(settings)
        super().__init__(tract, config)
        self._settings = settings
        if self.problem:
            warn(self.problem, UserWarning)

    @property
    def config(self) -> OrchestratorConfig:
        """The settings. Assign an `OrchestratorConfig` to save it in the tract.

        The triggers become the policy `orchestrator` in `t.policies`. Functions (`on_proposal`, `on_step`) are not
        saved. They apply until this tract is closed.
        """
        return self._config

    @config.setter
    def config(self, config: OrchestratorConfig) -> None:
        """Save new settings and use them.

        Raises:
            OrchestratorError: invalid settings, or they cannot be saved.
            CodeDecisionError: code on behalf of a model tried to raise the autonomy level.
            StoreError: they cannot be stored.
            TrustError: they cannot be signed.
        """
        save_config(self._settings, self._check_config(config))
        self._config, self.problem = config, ""
        policies = self._tract.policies
        if config.triggers:
            level = config.autonomy_ceiling
            policies.add("orchestrate", name=_POLICY, when=config.triggers, autonomy=level)
        elif any(row.name == _POLICY for row in policies.list()):
            policies.remove(_POLICY)
