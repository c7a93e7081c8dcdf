"""What tests of every part share: a home of their own, an in-memory tract, and the example operation."""

from __future__ import annotations

import gc
import os
import signal
import stat
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Protocol
from uuid import uuid4

import pytest
from hypothesis import settings

from tests import postgres
from tests.forking import Forker
from tests.scheduling import Scheduling
from tract_jupyter import Tract
from tract_jupyter.models import START_ENVIRONMENT
from tract_jupyter.operations import ActionDef, OperationSpec
from tract_jupyter.scripts import Rehearsing

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator
    from pathlib import Path

# a loaded machine is slow, not wrong; the same examples in every run, nothing written into the tree
settings.register_profile("tract", max_examples=50, deadline=None, derandomize=True, database=None)
settings.register_profile("quick", settings.get_profile("tract"), max_examples=15)
# processes that tests start read compiled files: compiling the package takes longer than most tests
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# jsonschema builds 38 grammars from it at import, which takes two seconds, for a format that nothing here uses
sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type] # "is not installed"
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in the background of a shell; tests press Ctrl-C
    signal.signal(signal.SIGINT, signal.default_int_handler)

VERIFY = """\
compiled = pending.tract.compile()
text = " ".join(m["content"] for m in compiled.to_dicts())
missing = [u for u in pending.fields["urls"] if u not in text]
if missing and strict:
    pending.reject(f"Missing {len(missing)} URLs: {missing}")
else:
    pending.fields["verified"] = True
    pending.approve()
"""


class MakeSpec(Protocol):
    """Type of the fixture `spec`."""

    def __call__(self, code: str = ..., **changes: Any) -> OperationSpec:
        """The citation_check example; `code` is that of its action `verify`, `changes` are parts of the spec."""


@pytest.fixture(autouse=True)
def data_dir(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Jupyter's data directory of this test, not made yet; the signing secret never touches the user's own."""
    # most tests need no folder, and `tmp_path` makes one, looking at all earlier ones for a free name
    folder = tmp_path_factory.getbasetemp() / "jupyter-data" / uuid4().hex
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(folder))
    monkeypatch.setitem(START_ENVIRONMENT, "JUPYTER_DATA_DIR", str(folder))
    monkeypatch.delenv("TRACT_JUPYTER_SECRET", raising=False)
    return folder


@pytest.fixture(autouse=True)
def no_rehearsals(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scripts of this process are not rehearsed: a rehearsal forks it. Tests of rehearsals switch them on."""
    monkeypatch.setattr(Rehearsing, "is_on", False)


@pytest.fixture(autouse=True)
def no_figures() -> Iterator[None]:
    """Close the figures of a test: scripts of other tests would show them."""
    yield
    pyplot: Any = sys.modules.get("matplotlib.pyplot")
    if pyplot is not None:
        pyplot.close("all")


@pytest.fixture(scope="session")
def forker() -> Iterator[Forker]:
    """Runs functions in processes that have imported what they need."""
    made = Forker()
    yield made
    made.close()


@pytest.fixture(scope="session")
def launch_warm() -> Iterator[Callable[..., Any]]:
    """Starts kernels by a fork of a process that has imported third-party packages; it replaces `launch_kernel`."""
    from tests import warm

    with warm.started() as launch:
        yield launch


@pytest.fixture
def admin_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The administrator's file of this process, not made yet."""
    path = tmp_path / "policy.toml"
    monkeypatch.setattr("tract_jupyter.models.administrator.ADMIN_FILE", path)
    return path


@pytest.fixture
def modes() -> Iterator[Callable[[Path], dict[str, int]]]:
    """The modes of the files and folders below a folder, while the umask removes none of their permissions."""
    if os.name != "posix":
        pytest.skip("POSIX modes")
    before = os.umask(0)
    yield lambda folder: {
        one.relative_to(folder).as_posix(): stat.S_IMODE(one.stat().st_mode)
        for one in folder.rglob("*")
    }  # fmt: skip
    os.umask(before)


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--store=postgres` runs the tests of the fixtures `tract` and `own_store`, and only those, on PostgreSQL."""
    parser.addoption("--store", choices=["usual", "postgres"], default="usual", help="where tracts are kept")


def pytest_configure(config: pytest.Config) -> None:
    """Draw fewer examples if slow tests are left out."""
    settings.load_profile("quick" if config.option.markexpr else "tract")


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Return one more than the processors, because some tests wait; at least four if all run, as many wait for kernels."""
    processors = os.cpu_count() or 1
    return processors + 1 if config.option.markexpr else max(4, processors)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Scheduling | None:
    """Return the scheduler for groups that long runs do not slow down."""
    return Scheduling(config, log) if config.getoption("dist") == "loadgroup" else None


def pytest_make_parametrize_id(val: object) -> str | None:
    """Shorten a text in the name of a test: each report repeats the name, and each process that a test starts gets it."""
    if not isinstance(val, str | bytes) or len(val) <= 60:
        return None
    return ascii(val[:60]).strip("b'\"")


@pytest.hookimpl(tryfirst=True)  # xdist reads the groups in its own hook
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out tests that another kind of store does not change, keep a file with its kernel, and let a kernel start twice.

    Tests of a file that share a kernel or a server are for one worker, or each worker would start it.
    """
    if config.getoption("store") != "usual":
        items[:] = [item for item in items if {"tract", "own_store"} & set(getattr(item, "fixturenames", ()))]
    for item in items:
        if not item.get_closest_marker("xdist_group") and _shares_with_its_file(item):
            item.add_marker(pytest.mark.xdist_group(item.path.relative_to(config.rootpath).as_posix()))
        marks = {mark.name for mark in item.iter_markers()}
        if marks & {"kernel", "slow"} and "browser" not in marks:
            # another process can take a kernel's port before the kernel opens it; the kernel then ends or hangs
            port_errors = ["Kernel died before replying", "Kernel didn't respond"]
            item.add_marker(pytest.mark.flaky(reruns=1, only_rerun=port_errors))


def _shares_with_its_file(item: pytest.Item) -> bool:
    fixtures = getattr(item, "_fixtureinfo", None)
    found = fixtures.name2fixturedefs.values() if fixtures else ()
    return any(definitions[-1].scope == "module" for definitions in found)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None]:
    """Collect all tests without garbage collections, and leave them out of later ones, which take half a second with them."""
    gc.disable()
    yield
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.fixture
def tract(request: pytest.FixtureRequest) -> Iterator[Tract]:
    """An empty tract: in memory, or on PostgreSQL, where it shares a store with others unless it needs its own."""
    with ExitStack() as stack:
        options = {}
        if request.config.getoption("store") == "postgres" and request.node.get_closest_marker("own_store"):
            server = request.getfixturevalue("postgres_server")
            options["url"] = stack.enter_context(server.database(template="tract_store"))
        elif request.config.getoption("store") == "postgres":
            options = {"url": request.getfixturevalue("shared_store"), "tract_id": uuid4().hex}
        yield stack.enter_context(Tract.open(**options))


@pytest.fixture
def own_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The address of an empty store that several processes can open: a file, or on PostgreSQL."""
    if request.config.getoption("store") == "postgres":
        server = request.getfixturevalue("postgres_server")
        with server.database(template="tract_store") as url:
            yield url
    else:
        yield f"sqlite:///{tmp_path}/t.db"


@pytest.fixture(scope="session")
def shared_store(postgres_server: postgres.Server) -> Iterator[str]:
    """The address of a store on PostgreSQL; making one for each test would take longer than the test."""
    with postgres_server.database(template="tract_store") as url:
        yield url


@pytest.fixture(scope="session")
def postgres_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[postgres.Server]:
    """The run's PostgreSQL server."""
    reason = postgres.why_not()
    if reason is not None:
        if os.environ.get("TRACT_REQUIRE_POSTGRES"):
            pytest.fail(reason)
        pytest.skip(reason)
    folder = tmp_path_factory.getbasetemp()
    with postgres.shared_server(folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) as server:
        yield server


@pytest.fixture(params=["sqlite", "postgres"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The address of an empty store of this test's own, on each kind of database in turn."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/store.db"
    else:
        server = request.getfixturevalue("postgres_server")
        with server.database(template="tract_store") as url:
            yield url


@pytest.fixture
def any_store(store_url: str) -> Iterator[Callable[..., Tract]]:
    """Opens tracts on one shared store, with the options of `Tract.open`; they are closed in the end."""
    with ExitStack() as opened:
        yield lambda **options: opened.enter_context(Tract.open(url=store_url, **options))


@pytest.fixture
def any_tract(any_store: Callable[..., Tract]) -> Tract:
    """An empty tract, on each kind of database in turn."""
    return any_store()


@pytest.fixture
def spec() -> MakeSpec:
    """A factory of the design document's example operation."""

    def make(code: str = VERIFY, **changes: Any) -> OperationSpec:
        verify = ActionDef("verify", "Check all URLs are present in context", {"strict": "bool"}, code)
        parts: dict[str, Any] = {
            "name": "citation_check",
            "description": "Verify source URLs survive compression",
            "fields": {
                "urls": {"type": "list[str]", "description": "URLs to verify", "required": True},
                "verified": {"type": "bool", "default": False},
            },
            "actions": {"verify": verify},
        }
        return OperationSpec(**{**parts, **changes})

    return make
