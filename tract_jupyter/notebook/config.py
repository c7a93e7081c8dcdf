"""What a user can set: `%config TractJupyter`, or `c.TractJupyter.…` in `ipython_config.py`."""

from __future__ import annotations

from traitlets import Bool, TraitError, Unicode, validate
from traitlets.config import Configurable


class TractJupyter(Configurable):
    """Settings of the extension. Names and the store take effect at the next `%load_ext` or `%reload_ext`."""

    store = Unicode(
        ".tract/tract.db",
        help="The SQLite file of the context, relative to the notebook's folder, or an SQLAlchemy URL.",
    ).tag(config=True)
    lock_file = Unicode(
        "tract.lock.json",
        help="The file of recorded decisions, relative to the notebook's folder. %tract record writes it.",
    ).tag(config=True)
    tract_name = Unicode("tract", help="The name of the context in the notebook's namespace.").tag(
        config=True
    )
    tools_name = Unicode("tools", help="The name of the tools in the notebook's namespace.").tag(config=True)
    quiet = Bool(default_value=False, help="Print nothing when the extension is loaded.").tag(config=True)

    autoload = Bool(
        default_value=False,
        help="Load the extension when IPython starts. Takes effect only in ipython_config.py.",
    ).tag(config=True)

    @validate("tract_name", "tools_name")
    def _valid_name(self, proposal: dict[str, str]) -> str:
        name = proposal["value"]
        if not name.isidentifier():
            raise TraitError(f"{name!r} is no Python name")
        return name
