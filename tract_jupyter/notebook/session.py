"""The extension's state in one kernel: the settings, and the tract, which opens at its first use.

`LazyTract` and `LazyTools` represent the tract and its tools in the user's namespace.
"""

from __future__ import annotations

import os
import tempfile
import threading
import types
from contextlib import suppress
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from tract_jupyter.exceptions import LLMError, StoreError, TractError
from tract_jupyter.notebook.chat.standing import TurnsOnDisplay
from tract_jupyter.notebook.front_end import FrontEnd
from tract_jupyter.notebook.notify import Notifier
from tract_jupyter.notebook.side_panel import SidePanel
from tract_jupyter.notebook.waiting import WaitingLine

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from tract_jupyter.llm import ModelConnection, Models
    from tract_jupyter.notebook.agents.live import AgentWatch, LiveTree
    from tract_jupyter.notebook.cells import NotebookCells, NotebookSaves
    from tract_jupyter.notebook.config import TractJupyter
    from tract_jupyter.notebook.serving import KernelEndpoint, PublishedEndpoint
    from tract_jupyter.operations import Advice
    from tract_jupyter.review import Ticket
    from tract_jupyter.toolkit import ServerAddress
    from tract_jupyter.tract import Tract


class LazyTract:
    """The notebook's tract. It opens its store at the first use; see `tract_jupyter.Tract` for its methods."""

    __slots__ = ("_notebook",)

    def __init__(self, notebook: NotebookSession) -> None:
        object.__setattr__(self, "_notebook", notebook)

    def __getattr__(self, name: str) -> Any:
        if name.startswith(("_repr_", "_ipython_")):  # a display does not open the store
            raise AttributeError(name)
        return getattr(self._notebook.tract, name)

    def __setattr__(self, name: str, value: object) -> None:
        setattr(self._notebook.tract, name, value)

    def __tract__(self) -> Tract:
        """Return the real tract, for code that needs the object itself, such as a `Session`."""
        notebook: NotebookSession = self._notebook
        return notebook.tract

    def __dir__(self) -> list[str]:
        from tract_jupyter.tract import Tract

        return [name for name in dir(Tract) if not name.startswith("_")]

    def _repr_mimebundle_(self, **_: object) -> dict[str, str] | None:
        """Show the state of the tract if it is open."""
        if not self._notebook.is_open:
            return None
        from tract_jupyter.notebook.formatters import tract_view

        self._notebook.waiting.is_told = True
        return tract_view(self._notebook.tract)

    def __repr__(self) -> str:
        if self._notebook.is_open:
            return repr(self._notebook.tract)
        return f"<Tract in {self._notebook.store}, not opened yet>"


class LazyTools(types.ModuleType):
    """Every tool as a function; `tools.list_tools()` lists them. Opens the store at the first use."""

    def __init__(self, notebook: NotebookSession) -> None:
        super().__init__("tools", LazyTools.__doc__)
        self.__dict__["_notebook"] = notebook

    def __getattr__(self, name: str) -> Any:
        if name.startswith(("__", "_repr_", "_ipython_")):
            raise AttributeError(name)
        return getattr(self.__dict__["_notebook"].tract.tools, name)

    def __setattr__(self, name: str, value: object) -> None:
        setattr(self.__dict__["_notebook"].tract.tools, name, value)

    def __dir__(self) -> list[str]:
        return dir(self.__dict__["_notebook"].tract.tools)

    def _repr_mimebundle_(self, **_: object) -> dict[str, str] | None:
        """List the tools if the store is open."""
        notebook = self.__dict__["_notebook"]
        if not notebook.is_open:
            return None
        from tract_jupyter.notebook.formatters import tools_view

        return tools_view(notebook.tract.tools, notebook.config.tools_name)

    def __repr__(self) -> str:
        return "<tools: one function for each tool; tools.list_tools() names them>"


def inject(notebook: NotebookSession) -> tuple[dict[str, Any], list[str]]:
    """Put `tract` and `tools` into the namespace; return the new names, and the names that the user already had."""
    wanted = {
        notebook.config.tract_name: LazyTract(notebook),
        notebook.config.tools_name: LazyTools(notebook),
    }
    namespace = notebook.shell.user_ns
    existing = [name for name in wanted if name in namespace]
    put = {name: value for name, value in wanted.items() if name not in existing}
    namespace.update(put)
    return put, existing


def restore(notebook: NotebookSession, put: dict[str, Any]) -> None:
    """Restore names that `%reset` or `del` removed."""
    for name, value in put.items():
        notebook.shell.user_ns.setdefault(name, value)


def withdraw(notebook: NotebookSession, put: dict[str, Any]) -> None:
    """Remove the names of `inject`, unless the user has reassigned them."""
    namespace = notebook.shell.user_ns
    for name, value in put.items():
        if namespace.get(name) is value:
            del namespace[name]


BEGAN = datetime.now(UTC)
"""The time when this kernel loaded the extension for the first time."""

ELSEWHERE = "%config TractJupyter.store = '~/tract.db'"
"""The line that moves the context to another place."""

_MEMORY = ":memory:"  # as in `Tract.open`, whose module would import SQLAlchemy at `%load_ext`

_models: WeakKeyDictionary[InteractiveShell, Models] = WeakKeyDictionary()
"""The models that were chosen in a shell. They stay until the kernel ends, also after `%reload_ext`."""

_used: set[str] = set()
"""The recorded decisions that this kernel has used. `%reload_ext` does not reset them."""


class NotebookSession:
    """The state of one kernel for magics, completions and the two names in the namespace."""

    def __init__(self, shell: InteractiveShell, config: TractJupyter) -> None:
        self.shell = shell
        self.config = config
        self.front_end = FrontEnd(shell)
        self.waiting = WaitingLine(self)
        self.turns = TurnsOnDisplay()
        self.side = SidePanel(self)
        self.notifier = Notifier(self)
        self.hides_values = False
        """True during a turn that hides the values of variables."""
        self.tells_store = True
        """False until the greeting is printed, because it names the store."""
        self._folder = Path.cwd()
        self._path = notebook_path(
            shell
        )  # read now, because `%reset` removes the name that VS Code adds to the namespace
        self._tract: Tract | None = None
        self._advice: Advice | None = None
        self._ran = RanCells(shell)
        self.served: PublishedEndpoint | None = None
        """The endpoint for agents of other programs, from `%tract serve` on."""
        self.agent_tree: LiveTree | None = None
        """The live tree of agents on display."""
        self._watch: AgentWatch | None = None
        self.outside_agent = ""
        """The outside agent that `%tract agent use` chose; empty for the model."""
        self._turn_endpoint: KernelEndpoint | None = None
        self._turn_address: ServerAddress | None = None
        self._continued: str | None = None
        """A sentence about the earlier conversation, until the first turn of this kernel shows it."""
        self.shows_continued = False
        """True if the running cell shows the continued conversation itself."""
        self._agents_folder = ""
        """The folder setting for agents' files that the tract uses."""
        self._cells: NotebookCells | None = None
        self._cells_lock = threading.Lock()
        self._lock = threading.Lock()
        config.observe(self._on_setting, config.LIVE)
        config.observe(self._on_store, "store")
        config.observe(self._on_model, "model")

    @property
    def tract(self) -> Tract:
        """The tract of this notebook. The first use opens or creates it."""
        with self._lock:
            if self._tract is None:
                self._tract = self._open()
            self.waiting.is_used = True
            return self._tract

    @property
    def opened(self) -> Tract | None:
        """The tract; None if it is not open. This is not a use of the tract."""
        return self._tract

    @property
    def has_pages(self) -> bool:
        """True if a page with the JupyterLab extension is connected."""
        return self._cells is not None and self._cells.pages.connected is not None

    def serve_turn(self) -> ServerAddress:
        """Offer the kernel to an outside agent that works in a turn of a cell, and return the address."""
        from tract_jupyter.notebook.serving import KernelEndpoint

        if self._turn_endpoint is None or self._turn_address is None or not self._turn_endpoint.is_running:
            self._turn_endpoint = KernelEndpoint(self, is_of_turn=True)
            self._turn_address = self._turn_endpoint.start()
        self._turn_endpoint.move_here()
        return self._turn_address

    def watch_saves(self) -> NotebookSaves | None:
        """Return the saves of the open notebook from now on; None if its file is not known."""
        from tract_jupyter.notebook.cells import NotebookSaves

        return None if self.path is None else NotebookSaves(self.path, self.cells.pages)

    @property
    def cells(self) -> NotebookCells:
        """The cells of the notebook, created at the first use."""
        from tract_jupyter.notebook.cells import NotebookCells

        with self._cells_lock:
            if self._cells is None:
                self._cells = NotebookCells(self)
            return self._cells

    def connect_page(self, comm: Any, message: dict[str, Any]) -> None:
        """Take the comm of a page that shows the cells."""
        self.cells.pages.opened(comm, message)

    @property
    def agent_watch(self) -> AgentWatch:
        """The observer of the tract's agents, created at the first use."""
        from tract_jupyter.notebook.agents.live import AgentWatch

        tract = self.tract
        with self._lock:
            if self._watch is None:
                self._watch = AgentWatch(tract)
            return self._watch

    @property
    def store(self) -> str:
        """The setting `store`, with the notebook's name instead of `{notebook}`."""
        return self.config.store.replace("{notebook}", self.notebook_name or "tract")

    @property
    def store_place(self) -> str | Path:
        """The file of the store, or its SQLAlchemy URL."""
        store = self.store
        return store if "://" in store else self._path_of(store)

    @property
    def has_store(self) -> bool:
        """True if the store exists. A database of a URL is assumed to exist, and one in memory never does."""
        store = self.store
        return "://" in store or (store != _MEMORY and Path(self.store_place).is_file())

    @property
    def chosen_model(self) -> ModelConnection | None:
        """The model of the chat. This does not open the store."""
        if self._tract is not None:
            return self._tract.models.connection("chat")
        models = _models.get(self.shell)
        if models is None and self.config.model:
            from tract_jupyter.llm import Models

            models = Models()
            models.use(self.config.model)
        return None if models is None else models.connection("chat")

    @property
    def notebook_name(self) -> str:
        """The notebook's file name without its suffix; empty if the front end does not report it.

        A notebook outside the kernel's folder gets a digest of its path, because other notebooks may have the same
        name.
        """
        path = self._path
        if path is None:
            return ""
        if not path.is_absolute() or path.parent == self._folder:
            return path.stem
        return f"{path.stem}-{sha256(str(path).encode()).hexdigest()[:8]}"

    @property
    def path(self) -> Path | None:
        """The absolute path of the notebook. None if the front end does not report it."""
        return None if self._path is None else self._folder / self._path

    @property
    def lock_path(self) -> Path:
        """The file of recorded decisions."""
        return self._folder / self.config.lock_file

    @property
    def advice(self) -> Advice:
        """The analysis with the user's settings. The object changes only with the settings."""
        config = self.config
        settings = (config.rules_off, config.rule_levels, config.rule_effects)
        if self._advice is None or not self._advice.is_of(*settings):
            self._advice = config.advice()
        return self._advice

    def is_typed(self, text: str) -> bool:
        """Return True if a text is part of the user's cell and has no hidden characters."""
        from tract_jupyter.models import distinct

        return bool(text.strip()) and text.strip() in self.waiting.cell_text and not distinct(text)[1]

    def ran_code(self) -> list[str]:
        """Return the cells and scripts that ran with the notebook's variables, the oldest first."""
        if self._tract is None:
            return self._ran.all()
        self.lend_variables()
        notebooks = self._tract.scripts.notebooks
        return notebooks.ran_code(notebooks.resolved(None))

    def lend_variables(self) -> None:
        """Give scripts in the kernel access to the notebook's variables, and their review access to the cells."""
        notebooks = self.tract.scripts.notebooks
        notebooks.user_namespace, notebooks.user_cells = self.shell.user_ns, self._ran.all
        notebooks.user_hidden = self._hidden_names

    def _hidden_names(self) -> dict[str, Any]:
        """Return the names of IPython and of this extension in the namespace, with their values."""
        namespace = self.shell.user_ns
        names = self.config.tract_name, self.config.tools_name
        own = {
            name: namespace[name] for name in names if isinstance(namespace.get(name), LazyTract | LazyTools)
        }
        return {**self.shell.user_ns_hidden, **own}

    def end_rules_after_reset(self) -> None:
        """End the standing rules for scripts if `%reset` removed the variables."""
        with suppress(TractError):  # reported at the next use of the store
            if self._ran.is_reset() and self._tract is not None:
                self._tract.review.grants.end_rules()

    @property
    def is_open(self) -> bool:
        """True if the tract has been used."""
        return self._tract is not None

    def why_not_written(self) -> str:
        """Return why the file of the store cannot be written, with the remedy; empty if it can.

        The check opens no store and leaves no file behind.
        """
        store = self.store
        problem = "" if "://" in store or store == _MEMORY else _refusal(Path(self._path_of(store)))
        return problem and (
            f"{store} cannot be written: {problem}. Choose another place: "
            f"{ELSEWHERE}; then: %reload_ext tract_jupyter"
        )

    def path_of(self, name: str) -> Path:
        """Return the path of a file that the user named, relative to the folder in which the extension was loaded."""
        return self._folder / Path(name).expanduser()

    def open_for_replay(self, cassette: Path) -> None:
        """Replay a cassette. If the tract is not open yet, it gets the recorded id and so the same commits."""
        with self._lock:
            if self._tract is None:
                self._tract = self._open(cassette)
                return
        self.tract.cassette.replay(cassette)

    def close(self) -> None:
        """Close the tract if it is open."""
        if self.served is not None:
            self.served.stop()
            self.served = None
        self.side.close()
        self.notifier.close()
        if self._cells is not None:
            self._cells.pages.close()
        with self._lock:
            if self._watch is not None:
                self._watch.close()
                self._watch = None
            if self._tract is not None:
                from tract_jupyter.llm import Models

                _models[self.shell] = kept = Models()  # the tract's own would keep the closed tract
                kept.take_over(self._tract.models)
                self._tract.close()
                self._tract = None

    def _open(self, replay: Path | None = None) -> Tract:
        from tract_jupyter.models import working
        from tract_jupyter.notebook.channels import NotebookChannel
        from tract_jupyter.notebook.headless_run import KernelReport, ReportedDecisions
        from tract_jupyter.review import RecordedDecisions, Trust

        store = self.store
        try:
            place: Any = {"url" if "://" in store else "path": self.store_place}
            report = KernelReport.current()
            if report is not None:
                place = report.copy_store(place)
            with working(
                f"Opening {store}" if replay is None else f"Opening {store} to replay {replay.name}"
            ):
                from tract_jupyter.tract import Tract

                tract = Tract.open(**place, replay=replay)
        except StoreError as error:
            why = self.why_not_written()
            if not why:
                raise
            raise StoreError(f"{error}. {why}") from error
        self._apply_settings(tract)
        if not _is_here(self._folder):  # an earlier cell changed the folder
            tract.workspace.default = self._folder
        if self.shell in _models:
            tract.models.take_over(_models[self.shell])
        elif self.config.model:
            self._use_model(tract)
        where = (self.lock_path, Trust(), _used, self._cell)
        recorded = RecordedDecisions(*where) if report is None else ReportedDecisions(report, *where)
        tract.reviewer.channel = NotebookChannel(
            self.front_end, recorded, changed=self.waiting.refresh, shown=self._on_request
        )
        for tool in self.cells.tools() if self.front_end.has_kernel else ():
            tract.executor.add(tool)
        if replay is None:
            self._continued = self._earlier(tract) or None
            if self._continued and not self.shows_continued:
                print(f"{self._continued} To start a new one: %tract chat new")  # noqa: T201 # before any request
                self._continued = ""
        return tract

    def _on_request(self, ticket: Ticket) -> None:
        """Show a request that was shown or has changed also at its cells and in the side panel."""
        self.cells.show(ticket)
        self.side.take(ticket)
        self.notifier.take(ticket)

    def _earlier(self, tract: Tract) -> str:
        """Return a sentence about the conversation that continues in this kernel; empty for a new one."""
        status = tract.status()
        if status.head is None or not status.message_count:
            return ""
        from tract_jupyter.models import counted
        from tract_jupyter.notebook.views.html import ago

        is_own = self.notebook_name and "{notebook}" in self.config.store
        whose = f"{self.notebook_name}.ipynb" if is_own else self.store
        last = ago(tract.get_commit(status.head).created_at, datetime.now(UTC))
        messages = counted(status.message_count, "message")
        return f"Continues the conversation of {whose}: {messages}, the last one {last}."

    def take_continued(self) -> str | None:
        """Return the sentence about the earlier conversation. It is None after the first turn of this kernel."""
        continued, self._continued = self._continued, None
        return continued

    def cell_name(self) -> str:
        """Return the id of the running cell, or `In [3]`; empty if a click runs this."""
        if self.front_end.in_callback:
            return ""
        return self.front_end.cell_id or f"In [{self.shell.execution_count}]"

    def _cell(self) -> str:
        """Return the source of the running cell; empty if IPython keeps no history."""
        manager = self.shell.history_manager
        return "" if manager is None or not manager.input_hist_raw else str(manager.input_hist_raw[-1])

    def _path_of(self, store: str) -> str | Path:
        """Return the file of the store, relative to the folder in which the extension was loaded."""
        if store.startswith("~"):
            return Path(store).expanduser()
        # in the same folder, the relative path keeps folders of this machine out of outputs
        return store if store == _MEMORY or _is_here(self._folder) else self._folder / store

    def _on_setting(self, _change: object) -> None:
        if self._tract is not None:
            self._apply_settings(self._tract)

    def _on_model(self, _change: object) -> None:
        """Use the model of the setting instead of an earlier choice."""
        _models.pop(self.shell, None)
        if self._tract is not None and self.config.model:
            self._use_model(self._tract)

    def _use_model(self, tract: Tract) -> None:
        try:
            tract.models.use(self.config.model)
        except LLMError as error:  # for example an invalid address in the environment; everything else works
            print(f"TractJupyter.model: {error}")  # noqa: T201 # the answer to a setting

    def _on_store(self, _change: object) -> None:
        """Print the new place of the context. An open store stays open."""
        text = f"The context is stored in {self.store}."  # instead of the text printed on loading
        if self._tract is not None:
            text = (
                f"The context stays in {self._tract.location} until %reload_ext tract_jupyter. Then it is stored in "
                f"{self.store}."
            )
        if self.tells_store or self._tract is not None:
            print(text)  # noqa: T201 # the answer to a magic

    def _apply_settings(self, tract: Tract) -> None:
        config = self.config
        tract.reviewer.timeout, tract.reviewer.on_timeout = config.decision_timeout, config.on_timeout
        tract.operations.carry_grants = config.carry_grants
        tract.operations.advice = self.advice
        tract.review.tells_rejections = config.tells_rejections
        tract.loop.images = config.images_per_turn
        if self._agents_folder != config.generated_agents_dir:
            self._agents_folder = config.generated_agents_dir
            tract.agents.directory = self._agents_place()

    def _agents_place(self) -> Path | None:
        """Return the folder for agents' files; None for the folder next to the store.

        In a headless run of `verify`, it is always next to the copy of the store.
        """
        from tract_jupyter.notebook.headless_run import KernelReport

        named = self.config.generated_agents_dir
        return self.path_of(named) if named and KernelReport.current() is None else None


def _refusal(path: Path) -> str:
    """Return why a file cannot be created and written; empty if it can."""
    try:
        if path.is_file() and not os.access(path, os.W_OK):
            return "it is read-only"
        folder = path.parent
        while not folder.exists() and folder != folder.parent:
            folder = folder.parent
        with tempfile.TemporaryFile(dir=folder):
            return ""
    except OSError as error:
        return error.strerror or type(error).__name__


def notebook_path(shell: InteractiveShell) -> Path | None:
    """Return the notebook of a kernel; None if the front end does not report it. Jupyter servers and VS Code do."""
    path = shell.user_ns.get("__vsc_ipynb_file__") or os.environ.get("JPY_SESSION_NAME", "")
    return Path(path) if isinstance(path, str) and path.endswith(".ipynb") else None


def _is_here(folder: Path) -> bool:
    try:
        return folder.samefile(".")
    except OSError:  # a cell removed it
        return False


_CHECK = "%tract_check"


class RanCells:
    """The cells whose names may still be in the namespace.

    `%reset` does not change the history. It rebuilds IPython's table of hidden names, so a bound method in the table
    becomes a new object.
    """

    def __init__(self, shell: InteractiveShell) -> None:
        self._shell = shell
        self._start = 0
        self._witness = self._told = self._hidden_method()

    def is_reset(self) -> bool:
        """Return True if `%reset` ran since the last call."""
        before, self._told = self._told, self._hidden_method()
        return before is not self._told

    def all(self) -> list[str]:
        """Return the cells since the kernel started or since `%reset`, without the running cell."""
        cells = self._history()
        witness = self._hidden_method()
        if witness is not self._witness:
            self._witness, self._start = witness, _after_reset(cells, self._start)
        # checked cells never ran
        return [cell for cell in cells[self._start :] if not cell.lstrip().startswith(f"%{_CHECK}")]

    def _history(self) -> list[str]:
        manager = self._shell.history_manager
        cells: list[str] = [] if manager is None else manager.input_hist_raw[1:]
        is_running = bool(cells) and _CHECK in cells[-1]  # IPython stores a cell before it runs it
        return cells[:-1] if is_running else cells

    def _hidden_method(self) -> object:
        return self._shell.user_ns_hidden.get("get_ipython")


def _after_reset(cells: list[str], start: int) -> int:
    """Return the index after the last cell that mentions a reset, or after all cells."""
    ends = [number for number, cell in enumerate(cells) if number >= start and "reset" in cell]
    return ends[-1] + 1 if ends else len(cells)
