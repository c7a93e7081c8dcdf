"""The checks of `%tract doctor` and `tract-jupyter doctor`. A check that fails names its remedy.

The checks cost nothing, change nothing, and send nothing. Only `is_online` sends one request to the model's server,
without a key and without content.
"""

from __future__ import annotations

import os
import platform
import shutil
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from tract_jupyter.exceptions import AdminLimitError, LLMError, StoreError, TractError
from tract_jupyter.llm import EXAMPLE
from tract_jupyter.models import admin_limits, printable, size_text, why_exposed
from tract_jupyter.notebook.commands.command import Command, arguments, option
from tract_jupyter.notebook.notify import INSTALL, has_apprise
from tract_jupyter.notebook.stores import existing_store
from tract_jupyter.notebook.views.html import Grid, GridView, View
from tract_jupyter.review import Trust
from tract_jupyter.storage import file_of, problems

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tract_jupyter.notebook.session import NotebookSession


State = Literal["ok", "note", "failed"]
"""The result of a check. A `note` is a feature that this machine lacks, not a fault."""

_LITTLE_SPACE: Final = 1_000_000_000  # bytes
_SECONDS: Final = 5.0  # to reach a server
_PACKAGES: Final = ("tract_jupyter", "ipython", "ipykernel", "jupyterlab", "ipywidgets", "anywidget")


_MARKS: Final[dict[State, str]] = {"failed": "✗", "note": "·", "ok": "✓"}


class Check(NamedTuple):
    """The result of one check. `remedy` is empty if nothing is needed."""

    name: str
    state: State
    found: str
    remedy: str = ""


def check_machine(store: str | None) -> Iterator[Check]:
    """Yield the checks that need no notebook."""
    yield _versions()
    yield from _widgets()
    yield _sandbox()
    yield from _tried("rehearsal", _rehearsal)
    yield _token_counts()
    yield from _tried("signing secret", _secret)
    yield _admin_limits()
    yield from [] if store is None else _store(store)


def _tried(name: str, check: Callable[[], Check]) -> Iterator[Check]:
    """Yield a check, or a failed one if the process lacks a folder: a container may have no home folder."""
    try:
        yield check()
    except (OSError, RuntimeError) as error:
        if isinstance(error, FileNotFoundError):
            found, remedy = "the working folder was deleted", "change to an existing folder"
        else:
            found, remedy = f"a folder cannot be found: {error}", "set HOME to a folder of yours"
        yield Check(name, "failed", found, remedy)


def check_notebook(notebook: NotebookSession, *, is_online: bool = False) -> Iterator[Check]:
    """Yield all checks of a notebook. With `is_online`, ask the model's server for an answer."""
    yield _front_end(notebook)
    yield from check_machine(None)
    problem = notebook.why_not_written()
    if problem:
        yield Check("store", "failed", problem)
    elif notebook.has_store:
        yield from _store(str(notebook.store_place))
    else:
        yield Check("store", "ok", f"{notebook.store}, created at its first use")
    yield from _notifications(notebook)
    yield from _model(notebook, is_online=is_online)


@dataclass(frozen=True)
class DoctorView(View):
    """The results of checks, the failed ones first."""

    checks: tuple[Check, ...]

    @property
    def failed(self) -> int:
        """The number of failed checks."""
        return sum(check.state == "failed" for check in self.checks)

    def to_html(self) -> str:
        """Return the checks as a table."""
        rows = tuple((f"{_MARKS[check.state]} {check.name}", *check[2:]) for check in self._ordered())
        grid = Grid(("Part", "Found", "Remedy"), rows)
        return GridView("Doctor", (self._summary(),), (grid,)).to_html()

    def to_text(self) -> str:
        """Return a line for each check, and a line for each remedy."""
        lines = [self._summary()]
        for check in self._ordered():
            lines.append(f"{_MARKS[check.state]} {check.name}: {check.found}")
            lines += [f"    {check.remedy}"] if check.remedy else []
        return printable("\n".join(lines))

    def _ordered(self) -> list[Check]:
        return sorted(self.checks, key=lambda check: list(_MARKS).index(check.state))

    def _summary(self) -> str:
        return f"{self.failed} of {len(self.checks)} checks failed." if self.failed else "No check failed."


# --- the machine


def _versions() -> Check:
    installed = [f"{name} {found}" for name in _PACKAGES if (found := _version(name))]
    found = ", ".join([f"Python {platform.python_version()}", *installed, platform.system()])
    return Check("versions", "ok", found)


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _widgets() -> Iterator[Check]:
    """A kernel may run in another environment than JupyterLab. Then the widgets are needed in both."""
    if _version("jupyterlab") and not find_spec("jupyterlab_widgets"):
        yield Check(
            "widgets", "failed", "JupyterLab is installed here, but the package jupyterlab_widgets is not",
            "pip install ipywidgets, then restart JupyterLab",
        )  # fmt: skip


def _sandbox() -> Check:
    if find_spec("pydantic_monty"):
        return Check("sandbox", "ok", "installed: a model's scripts run in it without a request")
    return Check("sandbox", "note", "not installed", 'pip install "tract_jupyter[sandbox]"')


def _rehearsal() -> Check:
    from tract_jupyter.rehearsal import probe

    level = probe()
    folder, home = Path.cwd(), Path.home().resolve()
    if level.name != "none" and folder in home.parents:
        return Check(
            "rehearsal", "note", f"There is none in {folder}, because it contains your home folder.",
            "start the notebook in your home folder, or in a folder of your project",
        )  # fmt: skip
    note = " The copy cannot read the hidden files of your home folder." if folder == home else ""
    if level.name == "full":
        return Check("rehearsal", "ok", level.reason + note)
    return Check(
        "rehearsal", "note", level.reason + note * (level.name != "none"),
        "nothing is needed: without a rehearsal, requests show the code with its findings"
        if level.name == "none"
        else "permit unprivileged user namespaces, if scripts should write files in a rehearsal",
    )  # fmt: skip


def _token_counts() -> Check:
    from tract_jupyter.context import default_counter

    counter = default_counter().name
    if counter != "approximate":
        return Check("token counts", "ok", counter)
    return Check(
        "token counts", "note", "estimated, with an error of about 15 %",
        'for exact counts: pip install "tract_jupyter[tiktoken]", and fill its cache once',
    )  # fmt: skip


def _secret() -> Check:
    trust = Trust()
    try:
        is_missing = trust.is_missing
    except TractError as error:
        return Check("signing secret", "failed", str(error))
    if is_missing:
        return Check("signing secret", "ok", f"none yet. Your first approval creates {trust.source}")
    return Check("signing secret", "ok", trust.source)


def _admin_limits() -> Check:
    name = "administrator's limits"
    try:
        limits = admin_limits()
    except AdminLimitError as error:
        return Check(name, "failed", str(error))
    if not limits.source:
        return Check(name, "ok", "none")
    found = "; ".join([limits.source, *limits.lines()])
    if os.access(limits.source, os.W_OK):
        return Check(
            name, "note", found, "you can change this file yourself; its owner should be the administrator"
        )
    return Check(name, "ok", found)


# --- the store


def _store(store: str) -> Iterator[Check]:
    try:
        path = file_of(store) if "://" in store else Path(store)
        database = existing_store(store)
    except StoreError as error:
        yield Check("store", "failed", str(error))
        return
    try:
        with database.read() as connection:
            damage = list(problems(connection))
    finally:
        database.close()
    size = "" if path is None else f", {size_text(path.stat().st_size)}"
    if damage:
        yield Check("store", "failed", f"{damage[0]} ({len(damage)} in all)", "restore a backup of the file")
    else:
        yield Check("store", "ok", f"{path or store}{size}, sound")
    if path is not None:
        yield from _place(path)


def _place(path: Path) -> Iterator[Check]:
    exposed = why_exposed(path)
    if exposed:
        yield Check("permissions", "note", f"{path}: {exposed}")
    free = shutil.disk_usage(path.parent).free
    if free < _LITTLE_SPACE:
        yield Check("disk", "failed", f"{size_text(free)} free for {path.parent}", "free some space")
    else:
        yield Check("disk", "ok", f"{size_text(free)} free")


# --- the notebook


def _front_end(notebook: NotebookSession) -> Check:
    front_end = notebook.front_end
    if not front_end.has_kernel:
        if front_end.takes_input:
            return Check("front end", "ok", "a terminal: requests appear as text with a prompt")
        return Check(
            "front end", "note", "no kernel and no input: nobody can decide here",
            "decide in the inbox of a notebook on the same store",
        )  # fmt: skip
    if front_end.is_headless:
        return Check(
            "front end", "note", "a headless run: requests are refused, unless they are recorded",
            "%tract record, in a live notebook",
        )  # fmt: skip
    return Check("front end", "ok", "a live front end: requests appear as panels, or as a prompt after 3 s")


def _notifications(notebook: NotebookSession) -> Iterator[Check]:
    notifier, name = notebook.notifier, "notifications"
    if not notifier.settings.addresses:
        return
    if not has_apprise():
        yield Check(name, "failed", "addresses are set, but apprise is not installed", INSTALL)
        return
    try:
        admin_limits().check_notifications()
    except AdminLimitError as error:
        yield Check(name, "note", str(error))
        return
    yield Check(name, "ok", " ".join(notifier.describe()))


def _model(notebook: NotebookSession, *, is_online: bool) -> Iterator[Check]:
    try:
        chosen = notebook.chosen_model
    except LLMError as error:
        yield Check("model", "failed", str(error))
        return
    if chosen is None:
        yield Check("model", "note", "no model is chosen", f"%tract model {EXAMPLE}")
        return
    try:
        chosen.check_allowed()
    except (AdminLimitError, LLMError) as error:
        yield Check("model", "failed", str(error))
        return
    key = chosen.key
    if key is not None and key.needed and not key.is_set:
        yield Check("model", "failed", f"{chosen.name} has no key", f"%tract model {chosen.name} --key")
    else:
        yield Check("model", "ok", str(chosen))
    if is_online and chosen.base_url is not None:
        yield _answer(chosen.base_url)


def _answer(base_url: str) -> Check:
    """Any answer shows that the server can be reached; without a key, most refuse."""
    import httpx

    try:
        with httpx.stream("GET", base_url, timeout=_SECONDS) as response:  # the body may be endless
            status = response.status_code
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        return Check(
            "server", "failed", f"{base_url} does not answer: {error or type(error).__name__}",
            "check the address, the network, and the variables HTTPS_PROXY and NO_PROXY",
        )  # fmt: skip
    return Check("server", "ok", f"{base_url} answers (status {status} without a key)")


_USAGE = "doctor [--online]"


def _doctor(notebook: NotebookSession, words: list[str]) -> DoctorView:
    is_online, rest = option(words, "--online")
    arguments(_USAGE, rest, 0, 0)
    return DoctorView(tuple(check_notebook(notebook, is_online=is_online)))


COMMANDS = (
    Command(
        _USAGE,
        "check the kernel, the model, the store and the extras; --online asks the model's server, too",
        _doctor,
        ("--online",),
    ),
)
