"""The settings of an orchestrator, and their storage in the tract."""

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
    "the stored settings of the orchestrator are not yours (another user saved or changed them), so they are not used; "
    "assign tract.orchestrator.config to save your own"
)


@dataclass
class OrchestratorConfig:
    """The settings of an orchestrator.

    Attributes:
        autonomy_ceiling: the maximum autonomy level. A lower `t.autonomy.ceiling` takes precedence.
        max_steps: the maximum number of tool calls of a run, including calls that only read.
        profile: the tools and their descriptions: `self`, `supervisor`, `full`, `code`, or a `ToolProfile`.
        system_prompt: the model's instructions, instead of the default. Names in braces are replaced: `{token_count}`,
            `{max_tokens}`, `{pct}`, `{commit_count}`, `{branch_name}`, `{recent_summary}` and `{task_context}`.
        task_context: the purpose of the context, in your words.
        triggers: the conditions that start a run by a policy. Each `Trigger` is enough alone. Such a run acts at
            `autonomy_ceiling` or below.
        model: the model, instead of the one for `orchestrate`: a name from `t.models`, `PROVIDER/NAME`, or another
            model name of the same client.
        temperature: 0 or more; None for models without a temperature.
        on_proposal: a function that decides about calls instead of the user.
        on_step: a function that receives each call with its result.
        recent_commits: the number of newest commits in the assessment, from 0 to 50.
        limits: further limits of a run: tokens, money, seconds.
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
        """Check the values; see `check`."""
        self.check()

    def check(self) -> None:
        """Check the settings. They may have changed since the last check.

        Raises:
            OrchestratorError: invalid settings.
            ContentError: unknown autonomy level or profile.
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
        """Return the settings as JSON data, without the functions.

        Raises:
            OrchestratorError: the profile is not built in, so it cannot be saved.
        """
        if not isinstance(self.profile, str):
            raise OrchestratorError(
                f"the profile {brief_repr(self.profile.name)} is not built in, so it cannot be saved; pass "
                "the settings to Orchestrator(t, config), or name a built-in profile"
            )
        data = {item.name: getattr(self, item.name) for item in fields(self) if item.name not in _NOT_SAVED}
        data["autonomy_ceiling"] = self.autonomy_ceiling.value
        data["triggers"] = [item.to_dict() for item in self.triggers]
        if self.limits is not None:
            data["limits"] = self.limits.to_dict()
        return data

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> OrchestratorConfig:
        """Create the settings from the result of `to_dict`.

        Raises:
            OrchestratorError: invalid data.
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
        """The names of the set functions. They are not saved, and only this process uses them."""
        return tuple(name for name in _NOT_SAVED if getattr(self, name) is not None)


def checked_config(config: object) -> OrchestratorConfig:
    """Return the settings after a check."""
    if not isinstance(config, OrchestratorConfig):
        raise OrchestratorError(
            f"config must be an OrchestratorConfig, such as OrchestratorConfig(max_steps=5), not {brief_repr(config)}"
        )
    config.check()
    return config


def save_config(settings: Settings, config: OrchestratorConfig) -> None:
    """Sign and store the settings of a tract's orchestrator."""
    data = checked_config(config).to_dict()
    about = {
        "autonomy_ceiling": data["autonomy_ceiling"],
        "max_steps": data["max_steps"],
        "model": data["model"],
    }
    settings.save(_SETTINGS, data, about)


def stored_config(settings: Settings) -> tuple[OrchestratorConfig, str]:
    """Return the stored settings and an empty string. If they cannot be used, return the defaults and the reason."""
    saved = settings.find(_SETTINGS)
    if saved is None:
        return OrchestratorConfig(), ""
    if not saved.is_own:
        return OrchestratorConfig(), NOT_OWN
    try:
        return OrchestratorConfig.from_dict(saved.values), ""
    except (OrchestratorError, ContentError) as error:
        return OrchestratorConfig(), str(error)
