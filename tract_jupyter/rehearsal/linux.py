"""Linux system calls that Python does not offer: namespaces, mounts, Landlock, seccomp, capabilities.

Each function is one call, or a few that belong together, for x86-64 and aarch64. They raise `OSError`. `filters`
decides what seccomp refuses, `contain` uses the rest.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import platform
import select
import struct
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

MACHINE: Final = platform.machine()
_ARCHITECTURES: Final = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}  # AUDIT_ARCH_*, as seccomp names them
IS_SUPPORTED: Final = sys.platform == "linux" and MACHINE in _ARCHITECTURES and sys.byteorder == "little"
ARCHITECTURE: Final = _ARCHITECTURES.get(MACHINE, 0)

# name, x86-64, aarch64; - if the architecture does not have the call
_NUMBERS: Final = """
_sysctl 156 -  accept 43 202  accept4 288 242  acct 163 89  add_key 248 217  adjtimex 159 171  bind 49 200
bpf 321 280  capset 126 91  chmod 90 -  chown 92 -  chroot 161 51  clock_adjtime 305 266
clock_settime 227 112  clone 56 220  clone3 435 435  connect 42 203  creat 85 -  delete_module 176 106
execve 59 221  execveat 322 281  fanotify_init 300 262  fanotify_mark 301 263  fchmod 91 52  fchmodat 268 53
fchmodat2 452 452  fchown 93 55  fchownat 260 54  fcntl 72 25  finit_module 313 273  flock 73 32  fork 57 -
fremovexattr 199 16  fsconfig 431 431  fsetxattr 190 7  fsmount 432 432  fsopen 430 430  fspick 433 433
futimesat 261 -  init_module 175 105  io_uring_enter 426 426  io_uring_register 427 427
io_uring_setup 425 425  ioctl 16 29  ioperm 173 -  iopl 172 -  ioprio_set 251 30  kcmp 312 272
kexec_file_load 320 294  kexec_load 246 104  keyctl 250 219  kill 62 129  landlock_add_rule 445 445
landlock_create_ruleset 444 444  landlock_restrict_self 446 446  lchown 94 -  link 86 -  linkat 265 37
listen 50 201  lookup_dcookie 212 18  lremovexattr 198 15  lsetxattr 189 6  memfd_create 319 279
memfd_secret 447 447  migrate_pages 256 238  mkdir 83 -  mkdirat 258 34  mknod 133 -  mknodat 259 33
modify_ldt 154 -  mount 165 40  mount_setattr 442 442  move_mount 429 429  move_pages 279 239  mq_open 240 180
mq_unlink 241 181  msgctl 71 187  msgget 68 186  msgrcv 70 188  msgsnd 69 189
name_to_handle_at 303 264  nfsservctl 180 42  open 2 -
open_by_handle_at 304 265  open_tree 428 428  openat 257 56  openat2 437 437  perf_event_open 298 241
personality 135 92
pidfd_getfd 438 438  pidfd_send_signal 424 424  pivot_root 155 41  prctl 157 167  prlimit64 302 261
process_madvise 440 440  process_mrelease 448 448  process_vm_readv 310 270  process_vm_writev 311 271
ptrace 101 117  quotactl 179 60  quotactl_fd 443 443  reboot 169 142  removexattr 197 14  rename 82 -
renameat 264 38  renameat2 316 276  request_key 249 218  rmdir 84 -  rt_sigqueueinfo 129 138
rt_tgsigqueueinfo 297 240  sched_setaffinity 203 122  sched_setattr 314 274  sched_setparam 142 118
sched_setscheduler 144 119  seccomp 317 277  semctl 66 191  semget 64 190  semop 65 193  semtimedop 220 192
sendmmsg 307 269  sendmsg 46 211
sendto 44 206  setdomainname 171 162  sethostname 170 161  setns 308 268  setpriority 141 140
setsockopt 54 208  settimeofday 164 170  setxattr 188 5  shmat 30 196  shmctl 31 195  shmget 29 194  socket 41 198
socketpair 53 199  swapoff 168 225  swapon 167 224  symlink 88 -  symlinkat 266 36  sysfs 139 -
syslog 103 116  tgkill 234 131  tkill 200 130  truncate 76 45  umount2 166 39  unlink 87 -  unlinkat 263 35
unshare 272 97  uselib 134 -  userfaultfd 323 282  ustat 136 -  utime 132 -  utimensat 280 88  utimes 235 -
vfork 58 -  vhangup 153 58
"""


def _numbers() -> dict[str, int]:
    words = _NUMBERS.split()
    column = words[1::3] if MACHINE == "x86_64" else words[2::3]
    return {name: int(number) for name, number in zip(words[::3], column, strict=True) if number != "-"}


NUMBERS: Final = _numbers()
"""The numbers of the system calls of this machine. A call that it does not have is missing."""

_libc: Final = ctypes.CDLL(None, use_errno=True) if IS_SUPPORTED else None


def _call(function: str, *arguments: object) -> int:
    result: int = getattr(_libc, function)(*arguments)
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{function}: {os.strerror(number)}")
    return result


def _syscall(name: str, *arguments: object) -> int:
    try:
        return _call("syscall", ctypes.c_long(NUMBERS[name]), *arguments)
    except OSError as error:
        raise OSError(error.errno, f"{name}: {os.strerror(error.errno or 0)}") from None


# Processes


def ready(descriptors: Iterable[int], seconds: float) -> set[int]:
    """Return the descriptors that can be read, or were closed, after at most some seconds."""
    poll = select.poll()  # `select` knows only small numbers
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    return {descriptor for descriptor, _ in poll.poll(max(0.0, seconds) * 1_000)}


SIGKILL_ON_EXIT: Final = 9
_PR_SET_PDEATHSIG: Final = 1
_PR_SET_DUMPABLE: Final = 4
_PR_CAPBSET_DROP: Final = 24
_PR_SET_NO_NEW_PRIVS: Final = 38
_LAST_CAPABILITY: Final = 63
_CAPABILITY_VERSION: Final = 0x20080522


def _prctl(option: int, argument: int) -> None:
    _call("prctl", option, ctypes.c_ulong(argument), *[ctypes.c_ulong(0)] * 3)


def die_with_parent() -> None:
    """Kill this process when the thread that forked it ends."""
    _prctl(_PR_SET_PDEATHSIG, SIGKILL_ON_EXIT)


def hide_from_debuggers() -> None:
    """Refuse other processes of the user access to the memory of this one."""
    _prctl(_PR_SET_DUMPABLE, 0)


def forbid_new_privileges() -> None:
    """Ignore setuid programs and file capabilities, in this process and its children."""
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)


def drop_capabilities() -> None:
    """Drop all capabilities, also for later programs."""
    for capability in range(_LAST_CAPABILITY + 1):
        try:
            _prctl(_PR_CAPBSET_DROP, capability)
        except OSError:  # beyond the last one of this kernel, or not permitted without capabilities
            break
    header = struct.pack("Ii", _CAPABILITY_VERSION, 0)
    _syscall("capset", header, bytes(24))


# Namespaces and mounts

NEW_MOUNTS: Final = 0x20000
NEW_IPC: Final = 0x8000000
NEW_USER: Final = 0x10000000
NEW_PROCESSES: Final = 0x20000000
NEW_NETWORK: Final = 0x40000000

MOUNT_READ_ONLY: Final = 1
MOUNT_NO_SETUID: Final = 2
MOUNT_NO_DEVICES: Final = 4
MOUNT_NO_EXEC: Final = 8
_MOUNT_RECURSIVE: Final = 16384
_MOUNT_PRIVATE: Final = 1 << 18
AT_FDCWD: Final = -100
_AT_RECURSIVE: Final = 0x8000
_OPEN_TREE_CLONE: Final = 1
_MOVE_FROM_DESCRIPTOR: Final = 4
_ATTRIBUTE_READ_ONLY: Final = 1


def unshare(flags: int) -> None:
    """Move this process into new namespaces."""
    _syscall("unshare", ctypes.c_ulong(flags))


def mount(kind: str, target: str, flags: int = 0, options: str = "") -> None:
    """Mount a file system of a kind."""
    arguments = (b"none", os.fsencode(target), kind.encode(), ctypes.c_ulong(flags), os.fsencode(options))
    _syscall("mount", *arguments)


def detach_from_host_mounts() -> None:
    """Keep later mounts of this namespace from other namespaces."""
    _syscall("mount", b"none", b"/", None, ctypes.c_ulong(_MOUNT_RECURSIVE | _MOUNT_PRIVATE), None)


def make_read_only(path: str) -> None:
    """Make a mount and all mounts below it read-only."""
    attributes = struct.pack("QQQQ", _ATTRIBUTE_READ_ONLY, 0, 0, 0)
    size = ctypes.c_size_t(len(attributes))
    _syscall("mount_setattr", AT_FDCWD, os.fsencode(path), _AT_RECURSIVE, attributes, size)


def clone_tree(path: str) -> int:
    """Return a descriptor of a copy of a mount below `path`, for `attach_tree`."""
    return _syscall("open_tree", AT_FDCWD, os.fsencode(path), _OPEN_TREE_CLONE | _AT_RECURSIVE | os.O_CLOEXEC)


def attach_tree(descriptor: int, target: str) -> None:
    """Mount the copy of `clone_tree`."""
    _syscall("move_mount", descriptor, b"", AT_FDCWD, os.fsencode(target), _MOVE_FROM_DESCRIPTOR)


# Memory

_MAP_FIXED: Final = 16


def map_over(
    address: int, size: int, protection: int, flags: int, descriptor: int = -1, offset: int = 0
) -> None:
    """Replace a mapping of this process by another one."""
    numbers = ctypes.c_int(protection), ctypes.c_int(flags | _MAP_FIXED), ctypes.c_int(descriptor)
    function = getattr(_libc, "mmap")  # noqa: B009 # there is no library on other systems
    function.restype = ctypes.c_void_p
    found = function(ctypes.c_void_p(address), ctypes.c_size_t(size), *numbers, ctypes.c_long(offset))
    if found != address:
        number = ctypes.get_errno()
        raise OSError(number, f"mmap: {os.strerror(number)}")


def protect(address: int, size: int, protection: int) -> None:
    """Set the permitted access to memory of this process."""
    _call("mprotect", ctypes.c_void_p(address), ctypes.c_size_t(size), protection)


# Files

FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
"""The flags to open a folder."""


@contextmanager
def opened(path: str | os.PathLike[str], flags: int = FOLDER, *, folder: int | None = None) -> Iterator[int]:
    """Open a file or a folder, perhaps below an open folder, and close it at the end of the block.

    A new file is private.
    """
    descriptor = os.open(path, flags, 0o600, dir_fd=folder)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


_NO_REPLACE: Final = 1
_EXCHANGE: Final = 2


def rename_new(source: str, target: str, folder: int) -> None:
    """Rename an entry of an open folder. An entry with the new name is an error, not replaced."""
    _rename(source, target, folder, _NO_REPLACE)


def exchange(first: str, second: str, folder: int) -> None:
    """Exchange the names of two entries of an open folder, in one step."""
    _rename(first, second, folder, _EXCHANGE)


def _rename(source: str, target: str, folder: int, flags: int) -> None:
    if not IS_SUPPORTED:
        raise OSError(errno.ENOSYS, "renameat2: this is not Linux on a known machine")
    names = os.fsencode(source), os.fsencode(target)
    _syscall("renameat2", folder, names[0], folder, names[1], ctypes.c_uint(flags))


# Landlock

LIST: Final = 1 << 3  # folders
READ: Final = (1 << 2) | LIST  # files and folders
WRITE: Final = (1 << 1) | sum(1 << bit for bit in range(4, 13))  # files; make and remove all kinds of entries
_RENAME: Final = 1 << 13  # between folders, ABI 2
_TRUNCATE: Final = 1 << 14  # ABI 3
_DEVICE_IOCTL: Final = 1 << 15  # ABI 5
_EXECUTE: Final = 1
_FILE_ONLY: Final = (1 << 1) | (1 << 2) | _TRUNCATE | _DEVICE_IOCTL | _EXECUTE
_NETWORK_ABI: Final = 4
_SCOPE_ABI: Final = 6
_VERSION: Final = 1
_PATH_BENEATH: Final = 1


class PathRule(NamedTuple):
    """An exception of Landlock: the permitted access below a path."""

    path: str
    access: int


def landlock_abi() -> int:
    """Return the version of Landlock; 0 if this machine does not have it."""
    try:
        return _syscall("landlock_create_ruleset", None, ctypes.c_size_t(0), _VERSION)
    except (OSError, KeyError):
        return 0


def landlock(rules: Iterable[PathRule]) -> None:
    """Refuse all access to files, TCP, outside abstract sockets and outside processes, except by the rules.

    Missing paths are skipped. Needs `forbid_new_privileges` or a capability.
    """
    abi = landlock_abi()
    handled = _handled(abi)
    network, scope = 3 * (abi >= _NETWORK_ABI), 3 * (abi >= _SCOPE_ABI)
    words = [handled, network, scope][: 3 if scope else 2 if network else 1]
    attributes = struct.pack(f"{len(words)}Q", *words)
    ruleset = _syscall("landlock_create_ruleset", attributes, ctypes.c_size_t(len(attributes)), 0)
    try:
        for rule in rules:
            _add_rule(ruleset, rule, handled)
        _syscall("landlock_restrict_self", ruleset, 0)
    finally:
        os.close(ruleset)


def _handled(abi: int) -> int:
    newer = ((2, _RENAME), (3, _TRUNCATE), (5, _DEVICE_IOCTL))
    return READ | WRITE | _EXECUTE | sum(bit for version, bit in newer if abi >= version)


def _add_rule(ruleset: int, rule: PathRule, handled: int) -> None:
    try:
        descriptor = os.open(rule.path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        access = rule.access | (_RENAME | _TRUNCATE) * bool(rule.access & WRITE)
        if not os.path.isdir(f"/proc/self/fd/{descriptor}"):  # noqa: PTH112 # an open descriptor
            access &= _FILE_ONLY
        beneath = struct.pack("=Qi", access & handled, descriptor)
        _syscall("landlock_add_rule", ruleset, _PATH_BENEATH, beneath, 0)
    finally:
        os.close(descriptor)


# seccomp

_SET_FILTER: Final = 1
NEW_LISTENER: Final = 8
_RECEIVE: Final = 0xC0502100
_ANSWER: Final = 0xC0182101
_CONTINUE: Final = 1
_NOTIFICATION: Final = struct.Struct("QIIiIQ6Q")


class Attempt(NamedTuple):
    """A system call that waits for the answer of a listener."""

    attempt_id: int
    process: int
    number: int
    arguments: tuple[int, ...]


def seccomp(program: Sequence[bytes], flags: int = 0) -> int:
    """Apply a filter program to this process, its threads and its children.

    Needs `forbid_new_privileges`.

    Returns:
        With the flag `NEW_LISTENER`, a descriptor that receives the calls to report.
    """
    code = ctypes.create_string_buffer(b"".join(program))
    header = struct.pack("HxxxxxxQ", len(program), ctypes.addressof(code))
    return _syscall("seccomp", _SET_FILTER, ctypes.c_uint(flags), header)


def receive_attempt(listener: int) -> Attempt:
    """Return the next call that the filter reports. Blocks until there is one."""
    buffer = bytearray(_NOTIFICATION.size)
    fcntl.ioctl(listener, _RECEIVE, buffer)
    attempt_id, process, _, number, _, _, *arguments = _NOTIFICATION.unpack(buffer)
    return Attempt(attempt_id, process, number, tuple(arguments))


def refuse_attempt(listener: int, attempt: Attempt) -> None:
    """Let a reported call fail with `EPERM`."""
    fcntl.ioctl(listener, _ANSWER, struct.pack("QqiI", attempt.attempt_id, 0, -errno.EPERM, 0))


def continue_attempt(listener: int, attempt: Attempt) -> None:
    """Let the kernel decide about a reported call. The filter must not be its only guard."""
    fcntl.ioctl(listener, _ANSWER, struct.pack("QqiI", attempt.attempt_id, 0, 0, _CONTINUE))


def take_descriptor(process: int, number: int) -> int:
    """Return a copy of a descriptor of another process, which `pidfd_open` opened."""
    return _syscall("pidfd_getfd", process, number, 0)
