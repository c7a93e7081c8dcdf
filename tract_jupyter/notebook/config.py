"""The settings: `%config TractJupyter`, or `c.TractJupyter.…` in `ipython_config.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traitlets import Bool, Dict, Enum, Float, Int, List, TraitError, Unicode, validate
from traitlets.config import Configurable

from tract_jupyter.exceptions import TractError
from tract_jupyter.models import brief_repr

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tract_jupyter.operations import Advice


class TractJupyter(Configurable):
    """Settings of the extension.

    New names take effect at the next `%reload_ext`. So does a new store, if the context was used already.
    """

    LIVE = (
        "decision_timeout",
        "on_timeout",
        "carry_grants",
        "tells_rejections",
        "images_per_turn",
        "generated_agents_dir",
        "rules_off",
        "rule_levels",
        "rule_effects",
    )
    """The settings that take effect at once."""

    store = Unicode(
        ".tract/{notebook}.db",
        help="The SQLite file of the context, relative to the notebook's folder, or an SQLAlchemy URL. {notebook} is "
        "the notebook's name ('tract' if the kernel runs no notebook), and each notebook has its own "
        "conversation. To share one, set the same file in each notebook.",
    ).tag(config=True)
    model = Unicode(
        "",
        help="The language model, such as openai/gpt-6-luna. %tract model chooses another one until the kernel "
        "ends. Its key comes from the environment or the system's keyring.",
    ).tag(config=True)
    lock_file = Unicode(
        "tract.lock.json",
        help="The file of recorded decisions, relative to the notebook's folder. %tract record writes it.",
    ).tag(config=True)
    tract_name = Unicode("tract", help="The name of the context in the notebook's namespace.").tag(
        config=True
    )
    tools_name = Unicode("tools", help="The name of the tools in the notebook's namespace.").tag(config=True)
    generated_agents_dir = Unicode(
        "",
        help="The folder for the files of new agents, relative to the notebook's folder. Each session has a separate "
        "folder in it. Empty for a folder next to the store.",
    ).tag(config=True)
    decision_timeout = Float(
        None,
        allow_none=True,
        min=0.0,
        help="The time limit of a decision in seconds, unless the operation sets one. None for no limit.",
    ).tag(config=True)
    on_timeout = Enum(
        ["wait", "deny", "stop"],
        default_value="wait",
        help="The action after that time: wait, deny (the request expires), or stop waiting with an error.",
    ).tag(config=True)
    carry_grants = Bool(
        default_value=False,
        help="Standing approvals carry over to a new version without new capabilities.",
    ).tag(config=True)
    tells_rejections = Bool(
        default_value=True, help="Commit the user's reason for a rejection to the context."
    ).tag(config=True)
    images_per_turn = Int(
        6,
        min=0,
        help="The number of images in results, such as figures of scripts, that a model may receive in one turn. 0 for "
        "none.",
    ).tag(config=True)
    cell_marks = Bool(
        default_value=True,
        help="Write the origin of a cell that the model inserted or replaced into its metadata (metadata.tract).",
    ).tag(config=True)
    rules_off = List(
        Unicode(),
        help="Codes of analysis rules to switch off, such as TJ201; %tract rules lists them. Every review shows it.",
    ).tag(config=True)
    rule_levels = Dict(
        key_trait=Unicode(),
        value_trait=Unicode(),
        help='Your own levels of analysis rules: {"TJ301": "medium"}; low, medium, high or critical.',
    ).tag(config=True)
    rule_effects = List(
        Unicode(),
        help="TOML files that describe the effects of calls of your libraries; docs/analysis.md has the format.",
    ).tag(config=True)
    quiet = Bool(default_value=False, help="Print nothing when the extension is loaded.").tag(config=True)

    autoload = Bool(
        default_value=False,
        help="Load the extension when IPython starts. Takes effect only in ipython_config.py.",
    ).tag(config=True)

    @validate("tract_name", "tools_name")
    def _valid_name(self, proposal: dict[str, str]) -> str:
        name = proposal["value"]
        if not name.isidentifier():
            raise TraitError(f"{name!r} is not a valid Python name")
        return name

    @validate("model")
    def _valid_model(self, proposal: dict[str, str]) -> str:
        from tract_jupyter.llm import EXAMPLE, provider_of

        value = proposal["value"].strip()
        if value and provider_of(value) is None:
            raise TraitError(f"Invalid model {brief_repr(value)}. Use PROVIDER/NAME, such as {EXAMPLE}")
        return value

    @validate("rules_off", "rule_levels")
    def _valid_rules(self, proposal: dict[str, Any]) -> Any:
        value = proposal["value"]
        try:
            _advice(*((value, {}) if proposal["trait"].name == "rules_off" else ((), value)))
        except TractError as error:
            raise TraitError(str(error)) from None
        return value

    @validate("rule_effects")
    def _valid_effects(self, proposal: dict[str, Any]) -> list[str]:
        """Return absolute paths. They stay valid if a cell changes the folder."""
        from tract_jupyter.analysis import check_effects

        try:
            return check_effects(proposal["value"])
        except TractError as error:
            raise TraitError(str(error)) from None

    def advice(self) -> Advice:
        """Return the analysis with these settings."""
        from tract_jupyter.analysis import own_effects

        if self.rule_effects or own_effects():
            from tract_jupyter.analysis import use_effects  # imports all rules

            use_effects(self.rule_effects)
        return _advice(self.rules_off, self.rule_levels)


def _advice(off: Iterable[str], levels: Mapping[str, str]) -> Advice:
    from tract_jupyter.operations import Advice

    return Advice(off, levels)
