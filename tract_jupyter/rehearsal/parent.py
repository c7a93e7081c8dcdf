"""The kernel's side of a rehearsal: starts an engine, reads the report, answers tool calls, and ends the copy."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tract_jupyter.rehearsal import linux
from tract_jupyter.rehearsal.effects import RefusedAttempt, RehearsedCall
from tract_jupyter.rehearsal.fork import Ends
from tract_jupyter.rehearsal.report import FrameReader, MalformedReportError, Report, frame_bytes, read_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from tract_jupyter.concurrency import StopSignal
    from tract_jupyter.rehearsal.contain import LevelName
    from tract_jupyter.rehearsal.effects import Ending
    from tract_jupyter.rehearsal.limits import RehearsalLimits
    from tract_jupyter.rehearsal.report import ReceivedCall, ReportFrame

_AT_ONCE: Final = 1 << 20
_GRACE: Final = 2.0  # seconds in which the supervisor ends the copy
_HEADERS: Final = 64_000_000  # bytes of outputs with images, besides the values
_LONGEST_MESSAGE: Final = 1 << 16
_SET_PIPE_SIZE: Final = 1031


class ToolReply(NamedTuple):
    """The answer to a tool call of the copy.

    Attributes:
        value: The JSON result.
        error: The error; empty if the call succeeded.
        needs_approval: True if the user must approve the call first. The rehearsal ends.
    """

    value: Any = None
    error: str = ""
    needs_approval: bool = False


@dataclass(slots=True)
class CopyOutcome:
    """The result of an engine, before the effects are computed.

    Attributes:
        level: The level of containment.
        ending: The ending.
        note: The error, limit or signal in one line.
        seconds: Duration.
        cpu_seconds: CPU time of the copy.
        report: The frames.
        calls: Tool calls in order.
        upper: A descriptor of the folder with changed files, or None. The owner of the outcome closes it.
        failure: The reason why nothing ran; empty if something ran.
        is_timeout: True if the ending is the limit of seconds.
        signal: The number of the signal that ended the copy, unless a limit did; 0 if none.
    """

    level: LevelName
    report: Report
    ending: Ending = "crashed"
    note: str = ""
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    calls: list[RehearsedCall] = field(default_factory=list)
    upper: int | None = None
    failure: str = ""
    is_timeout: bool = False
    signal: int = 0

    def __del__(self) -> None:
        """Free the changed files after an interrupt, too."""
        self.close()

    def close(self) -> None:
        """Free the changed files."""
        if self.upper is not None:
            os.close(self.upper)
            self.upper = None


def attend(
    start: Callable[[Ends], int],
    level: LevelName,
    limits: RehearsalLimits,
    *,
    tools: Callable[[str, dict[str, Any]], ToolReply] | None = None,
    stop: StopSignal | None = None,
) -> CopyOutcome:
    """Start an engine, and follow its copy until its end.

    `start` starts the supervisor with the copy's ends of the connections, and returns a descriptor of its process.
    """
    with contextlib.ExitStack() as stack:
        control, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        report, report_end = os.pipe()
        answers_end, answers = os.pipe()
        os.set_blocking(answers, False)
        for one in (control.close, lambda: os.close(report), lambda: os.close(answers)):
            stack.callback(one)
        with contextlib.suppress(OSError):
            import fcntl

            fcntl.fcntl(report, _SET_PIPE_SIZE, _AT_ONCE)
        started = time.monotonic()
        try:
            process = start(Ends(other.fileno(), report_end, answers_end))
        finally:
            other.close()
            os.close(report_end)
            os.close(answers_end)
        stack.callback(_end_supervisor, process, control)
        wake, waker = os.pipe()
        stack.callback(os.close, wake)
        stack.callback(os.close, waker)
        if stop is not None:
            stack.callback(stop.on_set(lambda: os.write(waker, b"x")))
        follower = _Follower(control, report, answers, wake, level, limits, tools)
        outcome = follower.follow()
    outcome.seconds = time.monotonic() - started
    return outcome


def _end_supervisor(process: int, control: socket.socket) -> None:
    """End the supervisor if it still runs. The copy dies with it."""
    with contextlib.suppress(OSError):
        control.shutdown(socket.SHUT_WR)
    try:
        if not linux.ready([process], _GRACE):
            with contextlib.suppress(OSError):
                signal.pidfd_send_signal(process, signal.SIGKILL)
        with contextlib.suppress(OSError):  # not a child, if the worker forked it
            os.waitid(os.P_PIDFD, process, os.WEXITED)
    finally:
        os.close(process)


class _Follower:
    def __init__(
        self,
        control: socket.socket,
        report: int,
        answers: int,
        wake: int,
        level: LevelName,
        limits: RehearsalLimits,
        tools: Callable[[str, dict[str, Any]], ToolReply] | None,
    ) -> None:
        self._control = control
        self._report = report
        self._answers = answers
        self._wake = wake
        self._limits = limits
        self._tools = tools
        self._reader = FrameReader(limits.values + limits.output + _HEADERS)
        self._outcome = CopyOutcome(level, Report(limits.output))
        self._until = 0.0
        self._is_over = False
        self._is_asked = False
        self._open = {control.fileno(), report, wake}

    def follow(self) -> CopyOutcome:
        self._until = time.monotonic() + self._limits.seconds
        while {self._control.fileno(), self._report} & self._open:
            ready = linux.ready(self._open, self._until - time.monotonic())
            if not ready and self._is_over:
                break
            if not ready or time.monotonic() >= self._until:  # a copy may send faster than this reads
                self._end_late()
            for descriptor in ready:
                self._read(descriptor)
        return self._result()

    def _read(self, descriptor: int) -> None:
        if descriptor == self._wake:
            self._open.discard(descriptor)
            self._finish("stopped", "")
        elif descriptor == self._report:
            self._read_report()
        else:
            self._read_control()

    def _end_late(self) -> None:
        if not self._is_over:
            self._outcome.is_timeout = True
            self._finish("limit", f"more than {self._limits.seconds:g} seconds")

    def _finish(self, ending: Ending, note: str) -> None:
        """End the copy, and wait a little for the supervisor's message."""
        if self._is_over:
            return
        self._is_over = True
        self._outcome.ending, self._outcome.note = ending, note
        self._until = time.monotonic() + _GRACE
        with contextlib.suppress(OSError):
            self._control.shutdown(socket.SHUT_WR)

    def _read_report(self) -> None:
        data = os.read(self._report, _AT_ONCE)
        if not data:
            self._open.discard(self._report)
        if self._is_over:
            return
        try:
            for frame in self._reader.feed(data):
                self._add(frame)
        except MalformedReportError as error:
            self._finish("crashed", str(error))

    def _add(self, frame: ReportFrame) -> None:
        call = self._outcome.report.add(frame)
        if call is not None and not self._is_over:
            self._answer(call)

    def _answer(self, call: ReceivedCall) -> None:
        """Answer a tool call, whose time does not count. One that needs approval ends the copy after its report."""
        if self._is_asked:
            self._finish("asked", "")
            return
        began = time.monotonic()
        reply = ToolReply(error="no tools are available in this rehearsal")
        if self._tools is not None:
            reply = self._tools(call.tool, call.arguments)
        self._until += time.monotonic() - began
        arguments = json.dumps(call.arguments, ensure_ascii=False)
        self._outcome.calls.append(RehearsedCall(call.tool, arguments, not reply.needs_approval))
        self._is_asked = reply.needs_approval
        answer = {"id": call.call_id, "value": reply.value, "error": reply.error, "ends": self._is_asked}
        try:
            buffers = frame_bytes(answer)
        except (TypeError, ValueError) as error:
            problem = f"{call.tool} ran, but its result is not JSON: {error}. Do not repeat the call for that"
            buffers = frame_bytes({"id": call.call_id, "value": None, "error": problem})
        with contextlib.suppress(OSError):
            self._send(b"".join(buffers))

    def _send(self, data: bytes) -> None:
        """Write an answer. A copy that does not read it reaches its limit of seconds, or is stopped."""
        poll = select.poll()
        poll.register(self._answers, select.POLLOUT)
        poll.register(self._wake, select.POLLIN)
        while data and not self._is_over:
            ready = dict(poll.poll(max(0.0, self._until - time.monotonic()) * 1_000))
            if self._wake in ready:
                self._read(self._wake)
            elif self._answers in ready:
                data = data[os.write(self._answers, data[:_AT_ONCE]) :]
            else:
                self._end_late()

    def _read_control(self) -> None:
        try:
            data, descriptors, _, _ = socket.recv_fds(self._control, _LONGEST_MESSAGE, 1)
        except OSError:
            data, descriptors = b"", []
        for descriptor in descriptors:
            self._outcome.close()
            self._outcome.upper = descriptor
        if not data:
            self._open.discard(self._control.fileno())
            return
        message = read_json(data)
        if message["kind"] == "failed":
            self._outcome.failure = message["problem"]
        elif message["kind"] == "refused":
            self._outcome.report.refused.append(RefusedAttempt(message["action"]))
        elif message["kind"] == "ended":
            self._add_end(message)
            self._drain()

    def _drain(self) -> None:
        """Read the rest of the report. Another process of the user may still hold the pipe open."""
        self._open.discard(self._control.fileno())
        while self._report in self._open and linux.ready([self._report], 0):
            self._read_report()
        self._open.discard(self._report)

    def _add_end(self, message: dict[str, Any]) -> None:
        self._outcome.cpu_seconds = message["cpu"]
        status, limit = message["status"], message["limit"]
        if self._is_over:
            return
        if limit:
            self._outcome.ending, self._outcome.note = "limit", limit
        elif status == -signal.SIGKILL and self._outcome.cpu_seconds >= self._limits.cpu_seconds:
            self._outcome.ending = "limit"
            self._outcome.note = f"more than {self._limits.cpu_seconds} CPU seconds"
        elif status < 0:
            self._outcome.signal = -status
            self._outcome.note = f"the copy ended with signal {signal.Signals(-status).name}"
        elif status:
            self._outcome.note = f"the copy ended with exit code {status}"

    def _result(self) -> CopyOutcome:
        outcome, report = self._outcome, self._outcome.report
        if report.ending == "failed":
            outcome.failure = report.note
        elif (
            not self._is_over
            and report.ending
            and outcome.ending == "crashed"
            and self._reader.is_between_frames
        ):
            outcome.ending = "raised" if report.ending == "raised" else "finished"
            outcome.note = report.note
        elif outcome.ending == "crashed" and not outcome.note:
            outcome.note = "the copy ended without a complete report"
        if self._is_asked and outcome.ending != "stopped":
            outcome.ending, outcome.note = "asked", ""
        return outcome
