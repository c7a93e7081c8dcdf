"""The administrator's limits: a file on a shared server that narrows what this package does in a kernel.

The file is read again at each use. A limit can only take something away: no setting of a user widens it. If the file
cannot be read or has an error, nothing that it could limit is allowed.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tract_jupyter.exceptions import AdminLimitError, ContentError, nearest
from tract_jupyter.models.budget import Allowance
from tract_jupyter.models.private_files import open_regular
from tract_jupyter.models.start_environment import START_ENVIRONMENT
from tract_jupyter.models.text import URL_BORDERS, brief_repr, goes_up
from tract_jupyter.models.trigger import AutonomyLevel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

ADMIN_FILE: Final = Path("/etc/tract_jupyter/policy.toml")
"""The administrator's file."""
ADMIN_VARIABLE: Final = "TRACT_JUPYTER_POLICY"
"""The environment variable with another file. It counts only if `ADMIN_FILE` does not exist."""
_MOST_BYTES: Final = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminLimits:
    """The limits of one file. The defaults limit nothing.

    Attributes:
        source: the file; empty if there is none.
        models: the allowed models, by the names that servers know, with `*` as a wildcard. None for all.
        base_urls: the allowed addresses of models. None for all.
        per_day: the budget of each user for a day of UTC, in tokens and US dollars. None for no limit.
        per_month: the budget for a month of UTC.
        autonomy: the highest autonomy level.
        looking: False if each script for the kernel needs a decision, even one without effects.
        outside_agents: False if no agent of another program may be started or served.
        mcp_servers: the allowed MCP servers, by URL or command line, with `*` as a wildcard. None for all.
        notifications: False if no message about a request may be sent outside the notebook.
        redaction: True if likely secrets are removed from each request to a model.
    """

    source: str = ""
    models: tuple[str, ...] | None = None
    base_urls: tuple[str, ...] | None = None
    per_day: Allowance | None = None
    per_month: Allowance | None = None
    autonomy: AutonomyLevel = AutonomyLevel.AUTONOMOUS
    looking: bool = True
    outside_agents: bool = True
    mcp_servers: tuple[str, ...] | None = None
    notifications: bool = True
    redaction: bool = False

    @property
    def has_budget(self) -> bool:
        """True if the usage of each user is limited."""
        return self.per_day is not None or self.per_month is not None

    @property
    def limits_requests(self) -> bool:
        """True if models, their addresses or their usage are limited."""
        return self.has_budget or self.models is not None or self.base_urls is not None

    def check_request(self, url: str, path: str, body: Mapping[str, Any]) -> None:
        """Check a request to a model: its address, and each model that its body names.

        Args:
            url: the whole address.
            path: the path of such requests after the address of the server, as `/v1/messages`.
            body: the body that is sent, as it is read from JSON.
        """
        if self.base_urls is not None and url not in _request_urls(self.base_urls, path):
            self._refuse(f"requests to {url}", f"They allow {_listed(self.base_urls)}", "this address")
        if self.models is None:
            return
        for model in _named_models(body):
            if not _matches(model, self.models):
                self._refuse(
                    f"the model {brief_repr(model)}", f"They allow {_listed(self.models)}", "this model"
                )

    def check_counted(self, *, is_counted: bool) -> None:
        """Check that a request to a model is counted for the budget of the user."""
        if self.has_budget and not is_counted:
            raise AdminLimitError(
                "the administrator's limits do not allow a request of a client that is used alone. They have a budget, "
                f"and such a request is not counted ({self.source}). Use tract.chat(...), or "
                "tract.models.client_for('chat').chat(...), which count"
            )

    def check_own_object(self, what: str) -> None:
        """Check that an object of the user may take part in a request to a model."""
        if self.limits_requests:
            self._refuse(
                f"{what} for requests to models",
                "Requests are limited, and cannot be checked there",
                "a model that you can name by PROVIDER/NAME or base_url",
            )

    def check_autonomy(self, level: AutonomyLevel) -> None:
        """Check an autonomy level that the user sets."""
        if level.rank > self.autonomy.rank:
            self._refuse(
                f"the autonomy level {level}", f"They allow {self.autonomy} at most", "a higher level"
            )

    def check_looking(self) -> None:
        """Check that scripts without effects may run without a request."""
        if not self.looking:
            self._refuse(
                "looking without a request", "Each script for the kernel needs your decision", "looking"
            )

    def check_outside_agents(self) -> None:
        """Check that agents of other programs may work here."""
        if not self.outside_agents:
            self._refuse("agents of other programs", "Only models of this package work here", "such agents")

    def check_notifications(self) -> None:
        """Check that a message about a request may be sent outside the notebook."""
        if not self.notifications:
            self._refuse("notifications", "Open requests appear only in the notebook", "notifications")

    def check_mcp_url(self, url: str, shown: str) -> None:
        """Check an MCP server over HTTP before its start, and before each call. An error has `shown` for the URL."""
        if self.mcp_servers is not None:
            # a file can have the name of a URL, so a pattern of one kind does not allow the other
            patterns = filter(_IS_URL.match, self.mcp_servers)
            self._check_mcp_server(shown, any(_matches_url(url, pattern) for pattern in patterns))

    def check_mcp_command(
        self, command_line: str, shown: str, *, has_environment: bool, has_folder: bool
    ) -> None:
        """Check an MCP server that is a program before its start, and before each call.

        Args:
            command_line: the program and its arguments, as a shell writes them.
            shown: the command line for errors, without keys.
            has_environment: True if the user sets variables of the program.
            has_folder: True if the user sets its working folder.
        """
        if self.mcp_servers is None:
            return
        patterns = [pattern for pattern in self.mcp_servers if not _IS_URL.match(pattern)]
        self._check_mcp_server(shown, _matches(command_line, patterns))
        for name, is_set in (("env", has_environment), ("cwd", has_folder)):
            if is_set:
                raise AdminLimitError(
                    f"the administrator's limits do not allow {name} for the MCP server {brief_repr(shown)}. "
                    f"They allow whole command lines, and {name} can make one run other code ({self.source}). Leave "
                    f"{name} out, or ask your administrator to allow a script that sets it"
                )

    def _check_mcp_server(self, place: str, is_allowed: bool) -> None:  # noqa: FBT001 # private
        if not is_allowed:
            allowed = f"They allow {_listed(self.mcp_servers)}"
            self._refuse(f"the MCP server {brief_repr(place)}", allowed, "this server")

    def lines(self) -> list[str]:
        """Return each limit as text, such as `models: gpt-6-*`."""
        budgets = {"day": self.per_day, "month": self.per_month}
        texts = {
            "models": _listed(self.models),
            "base URLs": _listed(self.base_urls),
            **{f"budget per {name}": limit and str(limit) for name, limit in budgets.items()},
            "autonomy": self.autonomy is not AutonomyLevel.AUTONOMOUS and f"{self.autonomy} at most",
            "looking": not self.looking and "off",
            "outside agents": not self.outside_agents and "off",
            "MCP servers": _listed(self.mcp_servers),
            "notifications": not self.notifications and "off",
            "redaction": self.redaction and "on",
        }
        return [f"{name}: {text}" for name, text in texts.items() if text]

    def _refuse(self, what: str, reason: str, wish: str) -> None:
        raise AdminLimitError(
            f"the administrator's limits do not allow {what}. {reason} ({self.source}). Ask your administrator for "
            f"{wish}"
        )


def admin_limits() -> AdminLimits:
    """Return the administrator's limits as they are now.

    Raises:
        AdminLimitError: the file cannot be read, or has an error. Nothing that it could limit is allowed then.
    """
    given = START_ENVIRONMENT.get(ADMIN_VARIABLE)
    for path in (ADMIN_FILE, Path(given) if given else None):
        if path is None:
            continue
        if not path.is_absolute():  # a cell can change the working folder
            raise _broken(path, f"{ADMIN_VARIABLE} must name an absolute path")
        try:
            with open(path, "rb", opener=open_regular) as file:  # Path.open takes no opener
                data = file.read(_MOST_BYTES + 1)
        except (FileNotFoundError, NotADirectoryError):
            if path != ADMIN_FILE:
                raise _broken(path, f"it does not exist, but {ADMIN_VARIABLE} names it") from None
            if _is_in_part(path):
                raise _broken(path, "it is a link to a missing file, or its folder is none") from None
            continue
        except OSError as error:
            raise _broken(path, error.strerror or type(error).__name__) from None
        if len(data) > _MOST_BYTES:
            raise _broken(path, f"it has more than {_MOST_BYTES:,} bytes")
        return _parsed(path, data)
    return _NONE


def _is_in_part(path: Path) -> bool:
    """Return True if a missing file was set up: it is a dangling link, or its folder is a file or such a link."""
    return os.path.lexists(path) or (os.path.lexists(path.parent) and not path.parent.is_dir())


_NONE: Final = AdminLimits()


def admin_autonomy() -> AutonomyLevel:
    """Return the highest autonomy level. If the file has an error, it is `manual`."""
    try:
        return admin_limits().autonomy
    except AdminLimitError:
        return AutonomyLevel.MANUAL


def admin_allows_looking() -> bool:
    """Return True if scripts without effects may run without a request. False if the file has an error."""
    try:
        return admin_limits().looking
    except AdminLimitError:
        return False


def _broken(path: Path, why: str) -> AdminLimitError:
    return AdminLimitError(
        f"the administrator's limits in {path} cannot be used: {why}. Nothing that they could limit is allowed. Ask "
        "your administrator to repair the file"
    )


def _listed(texts: tuple[str, ...] | None) -> str:
    return "" if texts is None else ", ".join(texts) or "none"


def _request_urls(base_urls: Iterable[str], path: str) -> set[str]:
    """Return the whole addresses of requests. Some clients have the version in the path, others in the address."""
    version = "/v1" if path.startswith("/v1/") else ""
    return {f"{url.removesuffix(version)}/{path.removeprefix('/')}" for url in base_urls}


_CONVERSATION: Final = frozenset({"messages", "input", "system", "instructions"})
_WITH_SCHEMAS: Final = frozenset({"tools", "response_format", "text", "output_config", "output_format"})
_SCHEMAS: Final = frozenset({"parameters", "input_schema", "schema"})
_MODEL_FIELD: Final = re.compile("model|fallback|deployment", re.IGNORECASE)


def _named_models(body: Mapping[str, Any]) -> Iterator[str]:
    """Yield all models that a request names, in nested options too: routers take other models to try."""
    for name, value in body.items():
        if name not in _CONVERSATION:
            # a schema describes fields, and does not set them
            yield from _models_in({name: value}, _SCHEMAS if name in _WITH_SCHEMAS else frozenset())


def _models_in(value: object, left_out: frozenset[str]) -> Iterator[str]:
    if isinstance(value, list):
        for each in value:
            yield from _models_in(each, left_out)
    elif isinstance(value, dict):
        for name, each in value.items():
            if _MODEL_FIELD.search(name):
                yield from _texts_in(each)
            elif name not in left_out:
                yield from _models_in(each, left_out)


def _texts_in(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _texts_in(each)


def _matches(text: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(text, pattern.replace("[", "[[]").replace("?", "[?]")) for pattern in patterns)


_IS_URL: Final = re.compile(r"[\w.+*-]+://")


def _matches_url(url: str, pattern: str) -> bool:
    """Match a URL. The wildcard stays within one part of it."""
    part = f"[^{re.escape(URL_BORDERS)}]*"
    return not goes_up(url) and re.fullmatch(part.join(map(re.escape, pattern.split("*"))), url) is not None


# --- the file


@lru_cache(maxsize=4)
def _parsed(path: Path, data: bytes) -> AdminLimits:
    import tomllib  # most machines have no such file

    try:
        text = data.decode()
        table = tomllib.loads(text)
    except ValueError as error:
        raise _broken(path, str(error)) from None
    except RecursionError:
        raise _broken(path, "it is nested too deeply") from None
    try:
        _check_names(table, text)
        values: dict[str, Any] = {
            name: _READERS[name](name, value) for name, value in table.items() if name != _BUDGET
        }
        values |= {
            f"per_{period}": _budget(period, value) for period, value in table.get(_BUDGET, {}).items()
        }
    except ContentError as error:
        raise _broken(path, str(error)) from None
    return AdminLimits(source=str(path), **values)


_BUDGET: Final = "budget"
_PERIODS: Final = ("day", "month")
_UNITS: Final = ("usd", "tokens")


def _check_names(table: Mapping[str, Any], text: str) -> None:
    """Refuse unknown names: a limit with a typing error must not be ignored."""
    _check_known(table, [*_READERS, _BUDGET], "", text)
    budget = _table(_BUDGET, table.get(_BUDGET, {}))
    if _BUDGET in table and not budget:
        raise ContentError(f"[{_BUDGET}] has no limit. Its limits are {', '.join(_PERIODS)}")
    _check_known(budget, _PERIODS, f"{_BUDGET}.", text)
    for period, limits in budget.items():
        name = f"{_BUDGET}.{period}"
        _check_known(_table(name, limits), _UNITS, f"{name}.", text)


def _check_known(table: Mapping[str, Any], known: Iterable[str], before: str, text: str) -> None:
    for name in table:
        if name not in known:
            names = ", ".join(known)
            raise ContentError(
                f"line {_line(name, text)}: unknown name {before + name!r}.{nearest(name, known)} Known names: {names}"
            )


def _line(name: str, text: str) -> int:
    """Return the first line with a name as a key or in a header, from 1. `tomllib` does not report it."""
    key = re.compile(rf"""(?<![\w-]){re.escape(name)}["']?\s*[.=\]]""")
    lines = enumerate(text.splitlines(), 1)
    return next((number for number, line in lines if key.search(line.partition("#")[0])), 1)


def _table(name: str, value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ContentError(f"{name} must be a table, as [{_BUDGET}.{_PERIODS[0]}], not {brief_repr(value)}")
    return value


def _texts(name: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(one, str) and one for one in value):
        raise ContentError(f"{name} must be a list of texts, not {brief_repr(value)}")
    return tuple(value)


def _urls(name: str, value: object) -> tuple[str, ...]:
    return tuple(url.rstrip("/") for url in _texts(name, value))


def _flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise ContentError(f"{name} must be true or false, not {brief_repr(value)}")
    return value


def _level(name: str, value: object) -> AutonomyLevel:
    if value not in set(AutonomyLevel):
        raise ContentError(f"{name} must be {', '.join(AutonomyLevel)}, not {brief_repr(value)}")
    return AutonomyLevel(str(value))


def _budget(period: str, limits: dict[str, Any]) -> Allowance:
    if not limits:
        raise ContentError(f"{_BUDGET}.{period} has no limit. Its limits are {', '.join(_UNITS)}")
    return Allowance(**limits)


_READERS: Final[dict[str, Callable[[str, object], Any]]] = {
    "models": _texts,
    "base_urls": _urls,
    "autonomy": _level,
    "looking": _flag,
    "outside_agents": _flag,
    "notifications": _flag,
    "mcp_servers": _texts,
    "redaction": _flag,
}
