"""Containment: what a rehearsal may read, write and reach, at two levels.

* full: new user, network, mount, IPC and process namespaces; an overlay over the workspace; everything else is
  read-only; a private `/tmp` and `/dev/shm`. The changes of files are in a file system in memory, which disappears with
  its last user.
* basic: no namespaces, so no file can be written, and no process can be started.

At both levels Landlock permits the folders that the code may read, seccomp refuses the rest (`filters`), and all
capabilities are dropped. `Containment` is prepared in the kernel. `enter` and `confine` run in the copy.

A home folder that is the workspace has hidden files with keys, tokens and histories. The code may not read entries
whose names begin with a dot, except what the interpreter needs.
"""

from __future__ import annotations

import contextlib
import os
import site
import stat
import sys
import sysconfig
import tempfile
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from tract_jupyter.rehearsal import linux
from tract_jupyter.rehearsal.filters import program
from tract_jupyter.rehearsal.linux import LIST, READ, WRITE, PathRule

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

LevelName = Literal["full", "basic"]

_SYSTEM: Final = (
    "/usr /lib /lib64 /lib32 /bin /sbin /opt/conda /nix/store /sys/devices/system /sys/fs/cgroup /etc/ssl /etc/pki"
    " /etc/ca-certificates /etc/fonts /etc/alternatives /etc/ld.so.cache /etc/ld.so.conf /etc/ld.so.conf.d"
    " /etc/localtime /etc/timezone /etc/passwd /etc/group /etc/nsswitch.conf /etc/hosts /etc/host.conf"
    " /etc/resolv.conf /etc/gai.conf /etc/protocols /etc/services /etc/mime.types /etc/os-release /etc/lsb-release"
    " /etc/debian_version /etc/locale.alias /etc/locale.conf /etc/default/locale /etc/matplotlibrc /etc/odbc.ini"
    " /etc/odbcinst.ini /etc/machine-id /etc/magic /etc/papersize /etc/python3"
)
_PROCESS: Final = "cpuinfo meminfo stat version filesystems loadavg uptime vmstat sys/kernel sys/vm self"
_DEVICES: Final = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
_TEMPORARY: Final = (
    "tmp", "matplotlib", "pymp-", "joblib", "torch", "numba", "pytest-", "ipykernel", "hsperf", ".",
)  # fmt: skip
_TOO_MUCH: Final = ("/root", "/home", "/etc", "/tmp")  # noqa: S108 # never readable as a whole
_CONFIGURATION: Final = (
    ".config/matplotlib", ".cache/matplotlib", ".matplotlib", ".config/fontconfig", ".fonts",
)  # fmt: skip
_PRIVATE: Final = ("/tmp", "/var/tmp", "/dev/shm")  # noqa: S108 # they become private
_SCRATCH: Final = ("/dev/shm", "/tmp", "/mnt", "/srv", "/media")  # noqa: S108 # where the file system in memory is mounted
_SHARED_MEMORY: Final = "/dev/shm"  # noqa: S108 # it becomes private
_PASSABLE: Final = 0o111
_PARTS: Final = {"work": 0o755, "tmp": 0o1777, "shm": 0o1777}


class ContainmentError(Exception):
    """Containment failed. Nothing has run."""


@dataclass(frozen=True, slots=True)
class Containment:
    """The containment of one rehearsal.

    Attributes:
        level: The level.
        workspace: The folder whose changes are recorded.
        readable: Paths that the code may read, besides the workspace.
        disk: The maximum size of all written files, in bytes.
        hidden: Paths in the workspace or in readable paths that the code may not read, except the readable ones in
            them.
    """

    level: LevelName
    workspace: str
    readable: tuple[str, ...]
    disk: int
    hidden: tuple[str, ...] = ()

    @property
    def writable(self) -> tuple[str, ...]:
        """The paths that the code may change in the copy."""
        return (self.workspace, *_PRIVATE) if self.level == "full" else ()

    def left_outside(self, upper: int) -> list[str]:
        """Return the files outside the workspace that the code left in the folder for temporary files.

        Names of `tempfile` and of libraries are not in the result. `upper` is the descriptor that `enter` returned.
        """
        names: list[str] = []
        with (
            contextlib.suppress(OSError),
            linux.opened("../tmp", linux.FOLDER | os.O_NOFOLLOW, folder=upper) as folder,
        ):
            names = sorted(os.listdir(folder))  # noqa: PTH208 # a descriptor
        below = [
            path[len(root) + 1 :]
            for path in (self.workspace, *self.readable)
            for root in _PRIVATE
            if is_below(path, [root])
        ]
        kept = {path.partition("/")[0] for path in below}
        return [f"/tmp/{name}" for name in names if name not in kept and not name.startswith(_TEMPORARY)]  # noqa: S108

    def enter(self) -> int | None:
        """Enter the namespaces of the full level. The next child is the first process of its namespace.

        Returns:
            A descriptor of the folder with the changed files; None at the basic level.
        """
        if self.level == "basic":
            return None
        user, group = os.geteuid(), os.getegid()
        linux.unshare(linux.NEW_USER)
        _write("/proc/self/setgroups", "deny")
        _write("/proc/self/uid_map", f"{user} {user} 1")
        _write("/proc/self/gid_map", f"{group} {group} 1")
        linux.unshare(linux.NEW_NETWORK | linux.NEW_MOUNTS | linux.NEW_IPC | linux.NEW_PROCESSES)
        linux.detach_from_host_mounts()
        linux.make_read_only("/")
        return self._mount()

    def confine(self) -> int | None:
        """Give up everything that the code does not need. This cannot be undone.

        Returns:
            A descriptor for the supervisor, which receives refused attempts. None if the kernel does not have it.
        """
        is_full = self.level == "full"
        if is_full:
            flags = linux.MOUNT_NO_SETUID | linux.MOUNT_NO_DEVICES | linux.MOUNT_NO_EXEC
            linux.mount("proc", "/proc", flags | linux.MOUNT_READ_ONLY)
        linux.forbid_new_privileges()
        linux.drop_capabilities()
        linux.landlock(self._rules())
        process = 1 if is_full else os.getpid()
        try:
            return linux.seccomp(program(process, can_write=is_full, has_listener=True), linux.NEW_LISTENER)
        except OSError:  # another filter of this process has a listener already
            linux.seccomp(program(process, can_write=is_full, has_listener=False))
            return None

    def _mount(self) -> int:
        """Mount the overlay and the private folders. Return a descriptor of the overlay's upper folder."""
        folder = os.getcwd()  # noqa: PTH109
        kept = [path for path in {self.workspace, *self.readable} if is_below(path, _PRIVATE)]
        scratch = self._scratch()
        flags = linux.MOUNT_NO_SETUID | linux.MOUNT_NO_DEVICES
        linux.mount("tmpfs", scratch, flags, f"size={self.disk},mode=755")
        for name, mode in {**_PARTS, "upper": stat.S_IMODE(os.stat(self.workspace).st_mode)}.items():  # noqa: PTH116
            os.mkdir(f"{scratch}/{name}")  # noqa: PTH102 # the copy of a process with threads: system calls only
            os.chmod(f"{scratch}/{name}", mode)  # noqa: PTH101
        upper = os.open(f"{scratch}/upper", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        folders = (
            f"lowerdir={_escaped(self.workspace)},upperdir={scratch}/upper,workdir={scratch}/work,userxattr"
        )
        linux.mount("overlay", self.workspace, flags, folders)
        self._hide(scratch)
        self._make_private(scratch, kept)
        os.chdir("/")
        for path in (folder, self.workspace):
            with contextlib.suppress(OSError):  # a folder for temporary files is private now
                os.chdir(path)
                break
        return upper

    def _hide(self, scratch: str) -> None:
        """Cover the hidden paths with folders and files that cannot be read, except what the code needs in them."""
        for number, path in enumerate(self.hidden):
            is_folder = os.path.isdir(path)  # noqa: PTH112
            kept = self._trees([one for one in self.readable if is_below(one, [path])])
            cover = f"{scratch}/hidden{number}"
            _make_mount_point(cover, is_folder=is_folder)
            os.chmod(cover, _PASSABLE if kept else 0)  # noqa: PTH101
            tree = linux.clone_tree(cover)
            linux.attach_tree(tree, path)
            os.close(tree)
            _attach(kept)
            linux.make_read_only(path)

    def _make_private(self, scratch: str, kept: Sequence[str]) -> None:
        """Cover the shared folders for temporary files, except the paths below them that the code needs."""
        tops = [path for path in sorted(kept) if not is_below(path, [one for one in kept if one != path])]
        trees = self._trees(tops)
        covers = [path for path in _PRIVATE if os.path.isdir(path) and not os.path.islink(path)]  # noqa: PTH112, PTH114
        sources = [
            linux.clone_tree(f"{scratch}/{'shm' if path == _SHARED_MEMORY else 'tmp'}") for path in covers
        ]
        for path, source in zip(covers, sources, strict=True):
            linux.attach_tree(source, path)
            os.close(source)
        _attach(trees)

    @staticmethod
    def _trees(paths: Iterable[str]) -> list[tuple[str, int, bool]]:
        """Return (path, descriptor of a copy of its mount, True for a folder) for each path."""
        return [(path, linux.clone_tree(path), os.path.isdir(path)) for path in paths]  # noqa: PTH112

    def _scratch(self) -> str:
        used = [self.workspace, *self.readable]
        for path in _SCRATCH:
            if os.path.isdir(path) and not any(is_below(one, [path]) for one in used):  # noqa: PTH112
                return path
        raise ContainmentError("no folder is free for the changed files")

    def _rules(self) -> list[PathRule]:
        is_full = self.level == "full"
        readable = [one for path in self.readable for one in visible_entries(path, self.hidden)]
        rules = [PathRule(path, READ) for path in (*readable, *_DEVICES)]
        rules.append(PathRule("/dev/null", READ | WRITE))
        if is_full:
            writable = self.writable
            return [*rules, *(PathRule(path, READ | WRITE) for path in writable), PathRule("/proc", READ)]
        own = [f"/proc/{os.getpid()}", *(f"/proc/{name}" for name in _PROCESS.split())]
        entries = visible_entries(self.workspace, self.hidden)
        names = [
            PathRule(self.workspace, LIST)
        ]  # Landlock has no rule for one folder without the folders in it
        return [*rules, *names, *(PathRule(path, READ) for path in (*entries, *own))]


def readable_paths(
    workspace: Path, roots: Iterable[Path] = (), private: Collection[str] = ()
) -> tuple[str, ...]:
    """Return the paths that code may read: the interpreter, its packages, system libraries, and `roots`.

    The workspace is not in the result. Neither is a home folder, or a folder above one, or a path of `private`, even if
    Python imports from it or if it is a root.
    """
    own = frozenset(homes())
    given = {str(one) for one in map(_resolved, roots) if one and not _holds_secrets(one, own)}
    paths = {one for one in _installed(tuple(sys.path), own) | given if not is_below(one, private)}
    dotted = dot_entries(workspace)
    seen = {one for one in paths if is_below(one, [str(workspace)]) and not is_below(one, dotted)}
    return tuple(sorted(one for one in paths - seen if not is_below(one, paths - {one})))


def package_paths() -> tuple[str, ...]:
    """Return the paths of the interpreter, its packages and this one. Other folders for imports are left out."""
    own = str(Path(__file__).resolve().parents[1])
    return tuple(sorted(_installed((), frozenset(homes())) | {own}))


def hidden_paths(workspace: Path, readable: Iterable[str], private: Iterable[str] = ()) -> tuple[str, ...]:
    """Return the paths that code may not read: hidden files of a home folder as workspace, and `private`."""
    readable = tuple(readable)
    dotted = tuple(path for path in dot_entries(workspace) if not is_below(path, readable))
    seen = [path for path in private if is_below(path, readable)]
    seen += [path for path in private if is_below(path, [str(workspace)]) and not is_below(path, dotted)]
    return (*dotted, *sorted({path for path in seen if not is_below(path, set(seen) - {path})}))


@lru_cache(maxsize=4)
def _installed(search_path: tuple[str, ...], own: frozenset[Path]) -> frozenset[str]:
    """Return the paths of the interpreter, its packages and the system."""
    python = [sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix, *site.getsitepackages()]
    python += [*sysconfig.get_paths().values(), *search_path, os.path.dirname(sys.executable)]  # noqa: PTH120
    if site.ENABLE_USER_SITE:
        python.append(site.getusersitepackages())
    wanted = [Path(one) for one in python if one]
    wanted += [Path.home() / one for one in _CONFIGURATION]
    chosen = {str(one) for one in map(_resolved, wanted) if one and not _holds_secrets(one, own)}
    chosen |= {path for path in _SYSTEM.split() if os.path.exists(path)}  # noqa: PTH110
    return frozenset(one for one in chosen if not is_below(one, chosen - {one}))


def _resolved(path: Path) -> Path | None:
    try:
        return path.resolve(strict=True)
    except (OSError, RuntimeError):
        return None


def _holds_secrets(path: Path, own: frozenset[Path]) -> bool:
    """Return True for a folder that is too much to read: the root, a home, a folder of homes or of temporary files."""
    too_much = {*own, Path(tempfile.gettempdir()).resolve(), *map(Path, _TOO_MUCH)}
    return any(one == path or one.is_relative_to(path) for one in too_much) or path.parent == Path("/home")


def _escaped(path: str) -> str:
    """Return a path as an option of a mount."""
    return path.replace("\\", "\\\\").replace(",", "\\,").replace(":", "\\:")


def _write(path: str, text: str) -> None:
    with linux.opened(path, os.O_WRONLY | os.O_CLOEXEC) as descriptor:
        os.write(descriptor, text.encode())


def _attach(trees: Iterable[tuple[str, int, bool]]) -> None:
    for path, tree, is_folder in trees:
        _make_mount_point(path, is_folder=is_folder)
        linux.attach_tree(tree, path)
        os.close(tree)


def _make_mount_point(path: str, *, is_folder: bool) -> None:
    folder = path if is_folder else os.path.dirname(path)  # noqa: PTH120
    os.makedirs(folder, exist_ok=True)  # noqa: PTH103
    if not is_folder:
        os.close(os.open(path, os.O_CREAT | os.O_CLOEXEC, 0o644))


def homes() -> set[Path]:
    """Return the resolved home folders of the user: the one of the environment, and the one of the account."""
    found = [Path.home()]
    with contextlib.suppress(ImportError, KeyError):  # not on Windows; a user without an account
        import pwd

        found.append(Path(pwd.getpwuid(os.getuid()).pw_dir))
    return {path.resolve() for path in found}


def is_home(workspace: Path) -> bool:
    """Return True if a resolved folder is a home folder of the user."""
    return workspace in homes()


def is_hidden_in_home(path: str, workspace: Path) -> bool:
    """Return True for a path below the workspace that is hidden, or in a hidden folder, in the home folder."""
    return path.startswith(".") and is_home(workspace)


def dot_entries(workspace: Path) -> tuple[str, ...]:
    """Return the resolved paths of the hidden entries of a home folder. Empty for another folder."""
    if not is_home(workspace):
        return ()
    names = [name for name in os.listdir(workspace) if name.startswith(".")]  # noqa: PTH208 # names only
    found = {os.path.realpath(workspace / name) for name in names}
    inside = {path for path in found if path != str(workspace) and is_below(path, [str(workspace)])}
    return tuple(sorted(path for path in inside if not is_below(path, inside - {path})))


def visible_entries(folder: str, hidden: Collection[str]) -> Iterator[str]:
    """Yield the paths that together are a folder without its hidden paths. Links are not in the result."""
    if not any(is_below(path, [folder]) for path in hidden):
        yield folder
        return
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.path not in hidden and not entry.is_symlink():
                yield from visible_entries(entry.path, hidden)


def is_below(path: str, folders: Iterable[str]) -> bool:
    """Return True if a path is one of some folders, or below one."""
    return f"{path}/".startswith(tuple(f"{folder.rstrip('/')}/" for folder in folders))
