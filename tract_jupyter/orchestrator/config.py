"""How an orchestrator works, as a person says it; and how that is kept with the tract."""

from __future__ import annotations

from collections.abc import Callable, Sequence  # noqa: TC003 # for check_fields
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import Field

from tract_jupyter.exceptions import ContentError, LLMConfigError, OrchestratorError, TractError
from tract_jupyter.models import Allowance, AutonomyLevel, Trigger, brief_repr, check_fields
from tract_jupyter.orchestrator.proposals import OrchestratorProposal, ProposalResponse  # noqa: TC001 # the same
from tract_jupyter.orchestrator.result import StepResult  # noqa: TC001 # the same
from tract_jupyter.toolkit import ToolProfile  # noqa: TC001 # the same

if TYPE_CHECKING:
    from tract_jupyter.review import Settings

_SETTINGS: Final = "orchestrator"
_NOT_SAVED: Final = ("on_proposal", "on_step")
NOT_OWN: Final = (
    "the stored settings of the orchestrator are not yours: somebody else saved them, or they were changed. They are "
    "not used; assign tract.orchestrator.config to save your own"
)


@dataclass
class OrchestratorConfig:
    """The settings of an orchestrator.

    Attributes:
        autonomy_ceiling: the level that it acts at, at most; `t.autonomy.ceiling` counts where that is lower.
        max_steps: how many tool calls a run makes at most, those that only read included.
        profile: which tools it has, in which words: `self`, `supervisor`, `full`, `code`, or a `ToolProfile`.
        system_prompt: what its model is told about its task, instead of the usual words. Names in braces are replaced:
            `{token_count}`, `{max_tokens}`, `{pct}`, `{commit_count}`, `{branch_name}`, `{recent_summary}` and
            `{task_context}`.
        task_context: what the context is for, in your words.
        triggers: when a policy starts it: each `Trigger` does. It acts at `autonomy_ceiling` then, or below.
        model: another model than the one for `orchestrate`: one of `t.models`, `PROVIDER/NAME`, or a name that the
            same client knows.
        temperature: from 0 on; None where the model takes none.
        on_proposal: is asked about each call that a person would be asked about, instead of the person.
        on_step: is given each call with what came of it.
        recent_commits: how many of the newest commits it is told about, from 0 to 50.
        limits: what a run may take besides: tokens, money, seconds.
    """

    autonomy_ceiling: AutonomyLevel = AutonomyLevel.COLLABORATIVE
    max_steps: Annotated[int, Field(ge=1)] = 10
    profile: str | ToolProfile = "self"
    system_prompt: str | None = None
    task_context: str | None = None
    triggers: Sequence[Trigger] = ()
    model: str | None = None
    temperature: float | None = 0.0
    on_proposal: Callable[[OrchestratorProposal], ProposalResponse] | None = None
    on_step: Callable[[StepResult], object] | None = None
    recent_commits: Annotated[int, Field(ge=0, le=50)] = 5
    limits: Allowance | None = None

    def __post_init__(self) -> None:
        """Check what a person wrote; see `check`."""
        self.check()

    def check(self) -> None:
        """Check the settings, which may have been changed since.

        Raises:
            OrchestratorError: one of them cannot be used.
            ContentError: there is no such level of autonomy, or no such profile.
        """
        from tract_jupyter.llm import settings_of
        from tract_jupyter.toolkit import profile_of

        self.autonomy_ceiling = AutonomyLevel(self.autonomy_ceiling)
        profile_of(self.profile)
        check_fields(self, OrchestratorError, skip=("profile",))
        try:
            settings_of("orchestrate", self.model, self.temperature)
        except LLMConfigError as error:
            raise OrchestratorError(str(error)) from None

    def to_dict(self) -> dict[str, Any]:
        """Return what is saved of it, as JSON data: all but the functions.

        Raises:
            OrchestratorError: the profile is one of your own, which cannot be saved.
        """
        if not isinstance(self.profile, str):
            raise OrchestratorError(
                f"the profile {brief_repr(self.profile.name)} is one of your own and cannot be saved; give the "
                "settings to Orchestrator(t, config), or name a built-in profile"
            )
        kept = {one.name: getattr(self, one.name) for one in fields(self) if one.name not in _NOT_SAVED}
        kept["autonomy_ceiling"] = self.autonomy_ceiling.value
        kept["triggers"] = [one.to_dict() for one in self.triggers]
        if self.limits is not None:
            kept["limits"] = self.limits.to_dict()
        return kept

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> OrchestratorConfig:
        """Read what `to_dict` gave.

        Raises:
            OrchestratorError: it is something else.
        """
        values = {**data, "on_proposal": None, "on_step": None}
        try:
            if values.get("limits") is not None:
                values["limits"] = Allowance(**values["limits"])
            values["triggers"] = [Trigger(**one) for one in values.get("triggers", ())]
            return cls(**values)
        except (TypeError, TractError) as error:
            raise OrchestratorError(
                f"the stored settings of the orchestrator cannot be read: {error}"
            ) from error

    @property
    def unsaved(self) -> tuple[str, ...]:
        """The settings that are not saved with the tract, and count in this process alone."""
        return tuple(name for name in _NOT_SAVED if getattr(self, name) is not None)


def checked_config(config: object) -> OrchestratorConfig:
    """Return settings that can be used.

    Raises:
        OrchestratorError: they are no `OrchestratorConfig`, or one of them cannot be used.
        ContentError: there is no such level of autonomy, or no such profile.
    """
    if not isinstance(config, OrchestratorConfig):
        raise OrchestratorError(
            f"the settings are an OrchestratorConfig, such as OrchestratorConfig(max_steps=5), not {brief_repr(config)}"
        )
    config.check()
    return config


def save_config(settings: Settings, config: OrchestratorConfig) -> None:
    """Sign and store the settings of a tract's orchestrator.

    Raises:
        TractError: one of them cannot be used or saved, or they cannot be stored.
    """
    data = checked_config(config).to_dict()
    about = {
        "autonomy_ceiling": data["autonomy_ceiling"],
        "max_steps": data["max_steps"],
        "model": data["model"],
    }
    settings.save(_SETTINGS, data, about)


def stored_config(settings: Settings) -> tuple[OrchestratorConfig, str]:
    """Return the stored settings, and why they are not used: then they are the usual ones.

    Raises:
        StoreError: the store cannot be read.
        TrustError: the signing secret cannot be read.
    """
    stored = settings.find(_SETTINGS)
    if stored is None:
        return OrchestratorConfig(), ""
    if not stored.is_own:
        return OrchestratorConfig(), NOT_OWN
    try:
        return OrchestratorConfig.from_dict(stored.values), ""
    except (OrchestratorError, ContentError) as error:
        return OrchestratorConfig(), str(error)
