"""Settings of the process that code changes beside its variables: environment, working folder, options, random state.

The copy writes changed settings as data. The kernel knows how each kind is set, and sets no other.
"""

from __future__ import annotations

import builtins
import os
import random
import re
import signal
import sys
import warnings
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tract_jupyter.models import one_line
from tract_jupyter.rehearsal.describe import tell_apart
from tract_jupyter.rehearsal.effects import RANDOM_STATES, SettingEffect
from tract_jupyter.rehearsal.files import new_folder_mode
from tract_jupyter.rehearsal.values import Buffer, Encoder, UnsafeValueError, check, encoded

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

MISSING: Final = object()
"""The value of a setting that does not exist."""
_LONGEST: Final = 80
_LONGEST_KEY: Final = 1_000
_RANDOM, _NUMPY_RANDOM = RANDOM_STATES
_PROCESS: Final = "the process"
_WARNINGS: Final = "warnings.filters"
_ACTIONS: Final = frozenset({"default", "error", "ignore", "always", "all", "module", "once"})
_ONLY_BY_RUN: Final = {
    "sys.path": "a changed search path for modules is set only by a run in the kernel",
    _PROCESS: "it is set only by a run in the kernel",
}
_SIGNALS: Final = ("SIGINT", "SIGTERM", "SIGALRM", "SIGUSR1", "SIGUSR2")
_PANDAS: Final = ("display.", "mode.", "future.", "compute.")
_PLAIN: Final = (str, int, float, bool, type(None))
_UNSAFE_PARAMETERS: Final = (
    "backend", "preamble", "path", "toolbar", "webagg", "interactive", "directory", "keymap", "args",
)  # fmt: skip
_SET_BY_LIBRARIES: Final = frozenset(
    {"MPLCONFIGDIR", "KMP_DUPLICATE_LIB_OK", "KMP_INIT_AT_FORK", "_RJEM_MALLOC_CONF"}
)  # at their import
_TRUSTED: Final = re.compile(
    r"(TRACT_|JUPYTER|LD_|DYLD_|PYTHON|IPYTHON|SSL_|GIT_|AWS_|XDG_|PIP_|UV_|CONDA_|POETRY_|NPM_CONFIG_|NODE_|RUBYOPT"
    r"|PERL5|JAVA_|R_PROFILE|R_ENVIRON|PYSPARK_|MAGICK_|LESS|NUMBA_CACHE|NUMBA_CUDA_DRIVER"
    r"|TORCH_EXTENSIONS|DOCKER_|BASH_|GCONV_|OPENSSL_|SSH_|DBUS_|ODBC|PG|QT_|GTK_|VK_|OCL_|RESOLV_|KRB5_|DJANGO_).*"
    r"|.*(_PROXY|_BASE_URL|_API_BASE|_ENDPOINT(_URL.*)?|_ASKPASS|_EDITOR|_BINARY|_EXE|_HOST|_UR[IL]|_ADDRESS|_SOCK"
    r"|_PLUGINS?|PATH)"
    r"|REQUESTS_CA_BUNDLE|CURL_CA_BUNDLE|MPLBACKEND|NETRC|HOSTALIASES|LOCALDOMAIN|RES_OPTIONS|TERMINFO|TMPDIR"
    r"|HOME|USERPROFILE|BROWSER|SHELL|ENV|IFS|PS4|PROMPT_COMMAND|ZDOTDIR|EDITOR|VISUAL|PAGER|MANPAGER|FCEDIT"
    r"|CC|CXX|LD|(C|CXX|CPP|LD|GO)FLAGS|RUSTC|RUSTC_WRAPPER|KUBECONFIG|(SPARK|HADOOP|R)_HOME|TESSDATA_PREFIX|GS_LIB",
    re.IGNORECASE | re.DOTALL,
)  # variables of the environment: other programs, other servers, other certificates
_OPTIONS: Final = ("plt.rcParams", "pd.options", "np.printoptions")


class ChangedSetting(NamedTuple):
    """A changed setting as it was received.

    Attributes:
        kind: The kind of setting.
        key: The key of the kind; empty if the kind is one value.
        value: The new value. `MISSING` if it was removed.
    """

    kind: str
    key: str
    value: Any

    @property
    def name(self) -> str:
        """The name as users see it."""
        if self.kind == _PROCESS:
            return one_line(self.key, _LONGEST)
        return f"{self.kind}[{self.key!r}]" if self.key else self.kind


def _environ() -> dict[str, Any]:
    return {name: value for name, value in os.environ.items() if name not in _SET_BY_LIBRARIES}


def _folder() -> dict[str, Any]:
    try:
        return {"": str(Path.cwd())}
    except OSError:  # it was deleted
        return {"": ""}


def _parameters() -> dict[str, Any]:
    matplotlib = sys.modules.get("matplotlib")
    parameters = getattr(matplotlib, "rcParams", None)
    if parameters is None:
        return {}
    return {
        key: dict.__getitem__(parameters, key)
        for key in dict.keys(parameters)
        if not key.startswith("backend") and key != "interactive"  # the backend of a notebook sets it itself
    }


def _pandas() -> dict[str, Any]:
    module = sys.modules.get("pandas._config.config")
    registered = getattr(module, "_registered_options", None)
    if registered is None:
        return {}
    values = getattr(module, "_global_config", {})
    found = {key: _value_at(values, key.split(".")) for key in registered if key.startswith(_PANDAS)}
    return {key: value for key, value in found.items() if value is not MISSING}


def _value_at(values: Any, path: list[str]) -> Any:
    for part in path:
        values = values.get(part, MISSING) if isinstance(values, dict) else MISSING
    return values


def _numpy() -> dict[str, Any]:
    numpy = sys.modules.get("numpy")
    return numpy.get_printoptions() if numpy is not None else {}


def _random() -> dict[str, Any]:
    return {"": random.getstate()}


def _numpy_random() -> dict[str, Any]:
    numpy = sys.modules.get("numpy.random")
    return {"": numpy.mtrand._rand} if numpy is not None else {}  # noqa: SLF001 # the global generator has no public name


def _search_path() -> dict[str, Any]:
    return {"": list(sys.path)}


def _warnings() -> dict[str, Any]:
    """Return the filters of warnings that have no condition but a category of Python, first the strongest."""
    return {"": ", ".join(filter(None, map(_filter_text, warnings.filters)))}


def _filter_text(one: tuple[Any, ...]) -> str:
    action, message, category, module, line = one
    is_plain = message is None and module is None and not line and _is_category(category.__name__)
    return f"{action} {category.__name__}" if is_plain else ""


def _are_filters(value: Any) -> bool:
    parts = [text.partition(" ") for text in value.split(", ")] if type(value) is str and value else []
    return type(value) is str and all(action in _ACTIONS and _is_category(name) for action, _, name in parts)


def _set_warnings(value: str) -> None:
    """Put new filters before the others, and remove the ones that are not in the value."""
    new, old = value.split(", ") if value else [], _warnings()[""].split(", ")
    kept = 0
    while kept < len(new) and _is_in_order(new[-kept - 1 :], old):
        kept += 1
    removed = set(old) - set(new[len(new) - kept :])
    with warnings.catch_warnings():
        warnings.resetwarnings()
        for text in reversed(new[: len(new) - kept]):
            action, _, name = text.partition(" ")
            warnings.simplefilter(action, getattr(builtins, name))  # type: ignore[arg-type] # an action
        first = list(warnings.filters)
    rest = [one for one in warnings.filters if _filter_text(one) not in removed]
    warnings.filters[:] = [*first, *rest]  # type: ignore[index] # a list
    warnings.filterwarnings("default", "a filter that ends the caches")
    del warnings.filters[0]  # type: ignore[attr-defined] # a list


def _is_in_order(some: list[str], others: list[str]) -> bool:
    rest = iter(others)
    return all(one in rest for one in some)


def _process() -> dict[str, Any]:
    """Return settings that this package does not change, as texts."""
    found = {
        "file mode mask": f"{0o777 & ~new_folder_mode():04o}",
        "recursion limit": str(sys.getrecursionlimit()),
        "signal handlers": " ".join(_callable(signal.getsignal(getattr(signal, name))) for name in _SIGNALS),
        **{
            f"sys.{name}": _callable(getattr(sys, name))
            for name in ("excepthook", "displayhook", "breakpointhook")
        },
        **_loggers(),
    }
    if "decimal" in sys.modules:
        context = sys.modules["decimal"].getcontext()
        found["decimal context"] = (
            f"precision {context.prec}, {context.rounding}, {context.Emin} to {context.Emax}"
        )
    if "locale" in sys.modules:
        found["locale"] = sys.modules["locale"].setlocale(sys.modules["locale"].LC_ALL, None)
    if "socket" in sys.modules:
        found["timeout of sockets"] = str(sys.modules["socket"].getdefaulttimeout())
    if "numpy" in sys.modules:
        found["np.geterr()"] = str(sys.modules["numpy"].geterr())
    return found


def _callable(value: Any) -> str:
    return f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', value)}"


def _loggers() -> dict[str, str]:
    """Return the level and the handlers of the root logger, and of loggers that are not of a library."""
    logging = sys.modules.get("logging")
    if logging is None:
        return {}
    loggers = [
        (f"logger {name!r}", logger)
        for name, logger in list(logging.root.manager.loggerDict.items())
        if isinstance(logger, logging.Logger) and name.partition(".")[0] not in sys.modules
    ]
    texts = {
        name: " ".join([logging.getLevelName(logger.level), *(type(one).__name__ for one in logger.handlers)])
        for name, logger in [("root logger", logging.root), *loggers]
    }
    return {name: text for name, text in texts.items() if text != "NOTSET"}


_READERS: Final[dict[str, Callable[[], dict[str, Any]]]] = {
    "os.environ": _environ,
    "working folder": _folder,
    "plt.rcParams": _parameters,
    "pd.options": _pandas,
    "np.printoptions": _numpy,
    "sys.path": _search_path,
    _WARNINGS: _warnings,
    _PROCESS: _process,
    _RANDOM: _random,
    _NUMPY_RANDOM: _numpy_random,
}
_LIBRARY_PARTS: Final = frozenset({"decimal context", "locale", "timeout of sockets", "np.geterr()"})
_LIBRARY_KINDS: Final = frozenset({*_OPTIONS, _NUMPY_RANDOM})


def _read(kind: str) -> dict[str, Any]:
    """Return the settings of a kind. Empty if something replaced them by other objects."""
    try:
        return _READERS[kind]()
    except Exception:  # noqa: BLE001 # objects of the code may raise anything
        return {}


def current(kind: str, key: str) -> Any:
    """Return the current value of a setting, or `MISSING`."""
    value = _read(kind).get(key, MISSING)
    return value.get_state(legacy=True) if kind == _NUMPY_RANDOM and value is not MISSING else value


class SettingsSnapshot:
    """The settings of some kinds at one time."""

    def __init__(self, kinds: Collection[str] = _READERS.keys()) -> None:
        read = {kind: _read(kind) for kind in kinds}
        self._before = {kind: (dict(values), _texts(values)) for kind, values in read.items()}

    def changed(self) -> Iterator[tuple[ChangedSetting, ChangedSetting]]:
        """Yield each setting that changed since, before and after."""
        for kind, (old, before) in self._before.items():
            if kind in _LIBRARY_KINDS and not before:
                continue  # the library was imported since
            new = _read(kind)
            texts = _texts(new)
            for key in sorted(before.keys() | texts.keys()):
                is_new = key in _LIBRARY_PARTS and key not in before
                if before.get(key) != texts.get(key) and not is_new:
                    yield (
                        ChangedSetting(kind, key, old.get(key, MISSING)),
                        ChangedSetting(kind, key, new.get(key, MISSING)),
                    )

    def frames(self) -> Iterator[tuple[dict[str, Any], list[Buffer]]]:
        """Yield a frame for each setting that changed since."""
        for _, after in self.changed():
            yield _frame(*after)


def process_frame(name: str, value: str) -> tuple[dict[str, Any], list[Buffer]]:
    """Return a frame for a changed part of the process that this module does not read."""
    return _frame(_PROCESS, name, value)


def _texts(values: Mapping[str, Any]) -> dict[str, str]:
    return {key: _text(value) for key, value in values.items()}


def _text(value: Any) -> str:
    if isinstance(value, tuple) and len(value) == 5 and hasattr(value[1], "tobytes"):  # noqa: PLR2004 # numpy's state
        return f"{value[1].tobytes().hex()} {value[2:]}"
    state = getattr(value, "get_state", None)
    if state is not None:
        _, words, *rest = state(legacy=True)
        return f"{words.tobytes().hex()} {rest}"
    return repr(value)


def _frame(kind: str, key: str, value: Any) -> tuple[dict[str, Any], list[Buffer]]:
    header: dict[str, Any] = {"what": "setting", "kind": kind, "key": key}
    if value is MISSING:
        return header | {"missing": True}, []
    try:
        sizes, buffers = encoded(value, Encoder())
    except UnsafeValueError as error:
        return header | {"problem": str(error)}, []
    return header | sizes, buffers


def effect_of(setting: ChangedSetting, problem: str) -> SettingEffect:
    """Return the effect of a received setting, compared with this process."""
    before = current(setting.kind, setting.key)
    if setting.kind in RANDOM_STATES:
        return SettingEffect(setting.name, "", "advanced", problem)
    shown = tell_apart(_as_text(before), _as_text(setting.value), _LONGEST)
    return SettingEffect(setting.name, *shown, problem or _problem(setting))


def _as_text(value: Any) -> str:
    if value is MISSING:
        return ""
    if isinstance(value, str):
        return value
    return repr(value) if _is_plain(value) else type(value).__name__


def check_setting(kind: Any, key: Any) -> None:
    """Refuse a setting that this process does not know."""
    check(
        isinstance(kind, str) and kind in _READERS and isinstance(key, str) and len(key) < _LONGEST_KEY,
        "a setting",
    )
    if kind == "os.environ":
        check(bool(key) and "=" not in key and "\0" not in key, "the name of an environment variable")
    elif kind == _PROCESS:
        check(bool(key), "a setting of the process")
    elif kind in _OPTIONS:
        check(key in _READERS[kind](), "the name of an option")
    else:
        check(key == "", "a setting")


def _is_category(name: str) -> bool:
    kind = getattr(builtins, name, None)
    return isinstance(kind, type) and issubclass(kind, Warning)


def _problem(setting: ChangedSetting) -> str:
    kind, key, value = setting
    if kind in _ONLY_BY_RUN:
        return _ONLY_BY_RUN[kind]
    if kind == "os.environ":
        return _problem_of_variable(key, value)
    if kind == "working folder":
        is_there = type(value) is str and Path(value).is_dir()
        return "" if is_there else "the folder does not exist outside the rehearsal"
    if kind == "plt.rcParams" and any(word in key for word in _UNSAFE_PARAMETERS):
        return "this parameter is set only by a run in the kernel"
    if kind in _OPTIONS or kind == _WARNINGS:
        is_safe = _is_plain(value) if kind in _OPTIONS else _are_filters(value)
        return "" if is_safe else "its value is not plain"
    return _problem_of_random(kind, value)


def _problem_of_variable(name: str, value: Any) -> str:
    if _TRUSTED.fullmatch(name):
        return "this variable changes which programs or servers this process trusts"
    return "" if value is MISSING or (type(value) is str and "\0" not in value) else "not a text"


def _problem_of_random(kind: str, value: Any) -> str:
    if kind == _NUMPY_RANDOM:
        return "" if type(value).__name__ == "RandomState" else "not a random state"
    try:
        random.Random().setstate(value)  # noqa: S311 # a check of the user's generator
    except (TypeError, ValueError, OverflowError):
        return "not a random state"
    return ""


def set_setting(setting: ChangedSetting) -> None:
    """Set a setting in this process. A library may refuse the value with any error."""
    kind, key, value = setting
    if kind == "os.environ":
        os.environ.pop(key, None) if value is MISSING else os.environ.__setitem__(key, value)
    elif kind == "working folder":
        os.chdir(value)
    elif kind == _RANDOM:
        random.setstate(value)
    elif kind == _NUMPY_RANDOM:
        sys.modules["numpy.random"].set_state(
            value if isinstance(value, tuple) else value.get_state(legacy=True)
        )
    elif kind == _WARNINGS:
        _set_warnings(value)
    elif kind == "pd.options":
        sys.modules["pandas"].set_option(key, value)
    elif kind == "np.printoptions":
        sys.modules["numpy"].set_printoptions(**{key: value})
    elif kind == "plt.rcParams":
        dict.__setitem__(sys.modules["matplotlib"].rcParams, key, value)


def same_setting(one: Any, other: Any) -> bool:
    """Return True if two values of a setting are equal."""
    if one is other:
        return True
    return type(one) is type(other) and _text(one) == _text(other)


SIMPLE_KINDS: Final = ("os.environ", "working folder", _WARNINGS, *_OPTIONS)
"""The settings that a run may change, apart from random states and the search path."""


def options_now() -> dict[str, dict[str, Any]]:
    """Return the options of loaded libraries as JSON, for another process."""
    return {
        kind: {key: value for key, value in _READERS[kind]().items() if _is_plain(value)} for kind in _OPTIONS
    }


def set_options(options: Mapping[str, Mapping[str, Any]]) -> None:
    """Set options of `options_now` in this process, if the libraries are loaded and accept them."""
    for kind, values in options.items():
        now = _READERS[kind]() if kind in _OPTIONS else {}
        for key, value in values.items():
            if key in now and now[key] != value:
                with suppress(Exception):
                    set_setting(ChangedSetting(kind, key, value))


def _is_plain(value: Any) -> bool:
    return type(value) in _PLAIN or (type(value) is list and all(type(one) in _PLAIN for one in value))
