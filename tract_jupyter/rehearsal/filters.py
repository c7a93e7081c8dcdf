"""The seccomp filter of a rehearsal: the system calls that it refuses, and their reasons.

Landlock and the namespaces decide about files and about processes by name. The filter refuses the other ways out. Calls
that are newer than this list do not exist for the code (`ENOSYS`).
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from typing import TYPE_CHECKING, Final, NamedTuple

from tract_jupyter.rehearsal.linux import ARCHITECTURE, NUMBERS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ALLOW: Final = 0x7FFF0000
_ERRNO: Final = 0x00050000
REFUSE: Final = _ERRNO | errno.EPERM
REPORT: Final = 0x7FC00000
"""The supervisor refuses the call, and reports it."""
MISSING: Final = _ERRNO | errno.ENOSYS
_NO_TERMINAL: Final = _ERRNO | errno.ENOTTY
_NEWEST: Final = 456  # later calls are unknown here

_LOAD: Final = 0x20
_AND: Final = 0x54
_IF_EQUAL: Final = 0x15
_IF_AT_LEAST: Final = 0x35
_RETURN: Final = 0x06
_WHOLE: Final = 0xFFFFFFFF
_NUMBER: Final = 0
_ARCH: Final = 4


class Test(NamedTuple):
    """A condition on an argument: its masked low half equals a value, or does not.

    Attributes:
        argument: The position of the argument, from 0.
        value: The value.
        mask: The bits that count.
        is_equal: False to test for a difference.
        is_high: True to test the high half of the argument.
    """

    argument: int
    value: int
    mask: int = _WHOLE
    is_equal: bool = True
    is_high: bool = False


class Clause(NamedTuple):
    """An action if all tests are true."""

    tests: tuple[Test, ...]
    action: int


def _unless(argument: int, *values: int, action: int = REFUSE) -> list[Clause]:
    """Refuse a call, except with one of the values of an argument."""
    return [*(Clause((Test(argument, value),), ALLOW) for value in values), Clause((), action)]


def _if(argument: int, *values: int) -> list[Clause]:
    """Refuse a call with one of the values of an argument."""
    return [Clause((Test(argument, value),), REFUSE) for value in values]


_ALWAYS: Final = [Clause((), REFUSE)]
_REPORTED: Final = "execve execveat ptrace process_vm_writev connect bind mount"
_REFUSED: Final = (
    # other processes and their memory
    "process_vm_readv process_madvise process_mrelease kcmp pidfd_getfd"
    " pidfd_send_signal rt_sigqueueinfo rt_tgsigqueueinfo tkill migrate_pages move_pages"
    # the network; sockets that exist are pairs, or cannot reach anything
    " listen accept accept4"
    # mounts and namespaces
    " umount2 pivot_root chroot unshare setns open_tree move_mount fsopen fsconfig fsmount fspick mount_setattr"
    " name_to_handle_at open_by_handle_at quotactl quotactl_fd fanotify_init fanotify_mark"
    # the machine
    " reboot swapon swapoff kexec_load kexec_file_load init_module finit_module delete_module acct settimeofday"
    " clock_settime clock_adjtime adjtimex sethostname setdomainname syslog vhangup iopl ioperm modify_ldt uselib ustat"
    " sysfs _sysctl nfsservctl lookup_dcookie personality"
    # large or risky interfaces of the kernel
    " bpf perf_event_open userfaultfd io_uring_setup io_uring_enter io_uring_register keyctl add_key request_key"
    " memfd_secret memfd_create"
    # memory and queues outside the file system
    " shmget shmat shmctl semget semctl semop semtimedop msgget msgctl msgsnd msgrcv mq_open mq_unlink"
    # priorities
    " ioprio_set sched_setscheduler sched_setparam sched_setattr"
)
_CHANGES_OF_FILES: Final = (  # that Landlock permits
    "chmod fchmod fchmodat fchmodat2 chown fchown lchown fchownat utime utimes utimensat futimesat truncate flock"
    " setxattr lsetxattr fsetxattr removexattr lremovexattr fremovexattr"
)

_WATCHED: Final = (
    "creat mkdir mkdirat unlink unlinkat rmdir rename renameat renameat2 link linkat symlink symlinkat"
    " mknod mknodat"
)
_OPENING: Final = (("open", 1), ("openat", 2))  # the argument with the flags
_SURE_TO_WRITE: Final = ((os.O_WRONLY, os.O_ACCMODE), (os.O_TRUNC, os.O_TRUNC), (os.O_EXCL, os.O_EXCL))

_CLONE_THREAD: Final = 0x10000
_NEW_NAMESPACES: Final = 0x7E020000
# F_SETOWN, F_SETSIG, F_SETOWN_EX, F_SETLEASE, F_NOTIFY: signals to others
_FCNTL_REFUSED: Final = (8, 10, 15, 1024, 1026)
# TCGETS, TIOCGWINSZ, FIONREAD, FIONBIO, FIO(N)CLEX
_IOCTL_ALLOWED: Final = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)
_PRCTL_REFUSED: Final = (1, 4, 35, 36, 0x59616D61)  # PDEATHSIG, DUMPABLE, MM, CHILD_SUBREAPER, PTRACER
_SOCKETS: Final = (socket.AF_INET, socket.AF_INET6)
_KINDS: Final = (socket.SOCK_STREAM, socket.SOCK_DGRAM)
_PAIRS: Final = (socket.SOCK_STREAM, socket.SOCK_SEQPACKET)
_KIND_MASK: Final = 0xF


def _conditional(process: int) -> dict[str, list[Clause]]:
    """Return the rules that depend on arguments."""
    sockets = [
        Clause((Test(0, family), Test(1, kind, _KIND_MASK)), ALLOW) for family in _SOCKETS for kind in _KINDS
    ]
    return {
        "socket": [*sockets, Clause((), REFUSE)],
        # a pair of datagram sockets can send to the sockets of others, and `SOCK_RAW` makes such a pair
        "socketpair": [
            *(Clause((Test(0, socket.AF_UNIX), Test(1, kind, _KIND_MASK)), ALLOW) for kind in _PAIRS),
            Clause((), REFUSE),
        ],
        # options of IP can make the machine join groups and announce them to the network
        "setsockopt": [
            Clause((Test(1, socket.IPPROTO_IPV6), Test(2, socket.IPV6_V6ONLY)), ALLOW),
            *_if(1, socket.IPPROTO_IP, socket.IPPROTO_IPV6),
        ],
        "sendto": [Clause((Test(4, 0, is_equal=False, is_high=high),), REFUSE) for high in (False, True)],
        "prlimit64": _unless(0, 0),
        "sched_setaffinity": _unless(0, 0),
        "setpriority": [Clause((Test(0, 0), Test(1, 0)), ALLOW), Clause((), REFUSE)],
        "fcntl": _if(1, *_FCNTL_REFUSED),
        "ioctl": _unless(1, *_IOCTL_ALLOWED, action=_NO_TERMINAL),
        "prctl": _if(0, *_PRCTL_REFUSED),
        "clone": [Clause((Test(0, 0, _NEW_NAMESPACES, is_equal=False),), REFUSE)],
        "clone3": [Clause((), MISSING)],  # its flags are in memory; the C library uses `clone` instead
        **({} if process == 1 else _without_processes(process)),
    }


def _read_only(*, has_listener: bool) -> dict[str, list[Clause]]:
    """Return the rules for a process that can change no file.

    Old versions of Landlock permit to open a file for reading and to empty it. It refuses the other changes itself, so
    the supervisor only reports them. A call that opens a file for reading and writing is not reported: libraries try
    it first.
    """
    rules = {name: list(_ALWAYS) for name in _CHANGES_OF_FILES.split()}
    rules["openat2"] = [Clause((), MISSING)]  # its flags are in memory
    for name, flags in _OPENING:
        emptying = (Test(flags, os.O_RDONLY, os.O_ACCMODE), Test(flags, os.O_TRUNC, os.O_TRUNC))
        reported = [Clause((Test(flags, *bits),), REPORT) for bits in _SURE_TO_WRITE if has_listener]
        rules[name] = [Clause(emptying, REFUSE), *reported]
    if has_listener:
        rules |= {name: [Clause((), REPORT)] for name in _WATCHED.split()}
    return rules


def _without_processes(process: int) -> dict[str, list[Clause]]:
    """Return more rules for a process that shares its process namespace: no children, signals only to itself."""
    thread = Test(0, _CLONE_THREAD, _CLONE_THREAD)
    return {
        "clone": [
            Clause((Test(0, 0, _NEW_NAMESPACES, is_equal=False),), REFUSE),
            Clause((thread,), ALLOW),
            *_ALWAYS,
        ],
        "fork": _ALWAYS,
        "vfork": _ALWAYS,
        "kill": _unless(0, process),
        "tgkill": _unless(0, process),
        "sendmsg": _ALWAYS,
        "sendmmsg": _ALWAYS,
    }


def program(process: int, *, can_write: bool, has_listener: bool) -> list[bytes]:
    """Return the filter as BPF instructions.

    Args:
        process: The id of the process. 1 if it has its own process namespace.
        can_write: False to refuse all changes of files.
        has_listener: True if the supervisor reports attempts that Python did not announce.
    """
    rules: dict[str, Sequence[Clause]] = dict.fromkeys(_REFUSED.split(), _ALWAYS)
    rules.update(dict.fromkeys(_REPORTED.split(), [Clause((), REPORT)] if has_listener else _ALWAYS))
    rules.update(_conditional(process))
    if not can_write:
        rules.update(_read_only(has_listener=has_listener))
    instructions = [
        *_guarded(_ARCH, _IF_EQUAL, ARCHITECTURE, REFUSE, is_wanted=True),
        *_guarded(_NUMBER, _IF_AT_LEAST, _NEWEST + 1, MISSING, is_wanted=False),
    ]
    for name, clauses in sorted(rules.items()):
        if name in NUMBERS:
            instructions += _rule(NUMBERS[name], clauses)
    return [*instructions, _instruction(_RETURN, ALLOW)]


def _instruction(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("HBBI", code, if_true, if_false, value & _WHOLE)


def _guarded(word: int, test: int, value: int, action: int, *, is_wanted: bool) -> Iterator[bytes]:
    """Yield a test of the whole call that ends with an action unless its result is wanted."""
    yield _instruction(_LOAD, word)
    yield _instruction(test, value, int(is_wanted), int(not is_wanted))
    yield _instruction(_RETURN, action)


def _rule(number: int, clauses: Sequence[Clause]) -> list[bytes]:
    body = [one for clause in clauses for one in _clause(clause)]
    if clauses[-1].tests:
        body.append(_instruction(_RETURN, ALLOW))
    return [_instruction(_IF_EQUAL, number, 0, len(body)), *body]


def _clause(clause: Clause) -> list[bytes]:
    """Return the instructions of a clause. A false test jumps over the rest."""
    instructions = [_instruction(_RETURN, clause.action)]
    for test in reversed(clause.tests):
        rest = len(instructions)
        jump = (0, rest) if test.is_equal else (rest, 0)
        load = [_instruction(_LOAD, 16 + 8 * test.argument + 4 * test.is_high)]
        mask = [] if test.mask == _WHOLE else [_instruction(_AND, test.mask)]
        instructions = [*load, *mask, _instruction(_IF_EQUAL, test.value, *jump), *instructions]
    return instructions
