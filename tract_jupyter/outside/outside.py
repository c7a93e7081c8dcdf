"""`Tract.outside`: agents of other programs that work in a turn of the tract, over the Agent Client Protocol (ACP)."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tract_jupyter.concurrency import Stopped, StopSignal, Worker
from tract_jupyter.exceptions import OutsideAgentError, RehearsalError, TractError
from tract_jupyter.loop import StoppedEarlyError, TurnNoted, TurnObserver, TurnRequest
from tract_jupyter.models import ChatResponse, TurnOutcome, admin_limits, digest, one_line
from tract_jupyter.outside import agents
from tract_jupyter.outside.agents import settings_of
from tract_jupyter.outside.files import shown
from tract_jupyter.outside.session import AgentSession
from tract_jupyter.outside.traffic import AgentTraffic
from tract_jupyter.outside.turn import SESSION, OutsideTurn, prompt_content
from tract_jupyter.rehearsal import watch_files
from tract_jupyter.toolkit import call_context, changed_context

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from tract_jupyter.context import Attachable, Repository
    from tract_jupyter.llm import Cassette
    from tract_jupyter.loop import AnswerStore, Generation, ToolLoop, TurnEvent
    from tract_jupyter.models import AttachedFile, Delta, Message
    from tract_jupyter.outside.agents import AgentSettings
    from tract_jupyter.outside.files import NotebookFile
    from tract_jupyter.outside.session import KernelServer
    from tract_jupyter.rehearsal import Backups, Change, FileWatch
    from tract_jupyter.review import Review
    from tract_jupyter.toolkit import EffectRecords

_SETTLE_SECONDS: Final = 5.0
_MOST_EARLIER: Final = 40_000
_MOST_BEFORE: Final = 1_000
_MOST_SESSIONS: Final = 200
_SESSION_EVENT: Final = "outside.session"
_NAME: Final = 120
_SAVED: Final = "{} has the cells of its page, or its earlier cells. Outputs and metadata were not compared."
_EARLIER: Final = (
    "The conversation so far, for your information:\n\n{text}\n\nThe message of the user:\n\n{message}"
)


class OutsideAgents:
    """The outside agents of one tract: `use`, `chat`, `stop`.

    Each agent is a process of its own, and stays for the next turn. It asks the user before it acts, through the same
    gate as a model. docs/outside_agents.md has the limits.

    They belong to a tract or to an agent of the tree, the `actor`. `above` are the outside agents of its parent tract,
    whose settings apply here.

    Attributes:
        server: a function that starts the kernel's MCP server and returns its address; None to offer none.
        watch_saves: a function that returns the file of the open notebook, called at the start of a turn. None if there
            is no notebook.
    """

    def __init__(
        self,
        tract: Any,
        repository: Repository,
        generation: Generation,
        *,
        loop: Callable[[], ToolLoop],
        review: Callable[[], Review],
        answers: Callable[[], AnswerStore],
        effects: Callable[[], EffectRecords],
        backups: Callable[[], Backups],
        cassette: Callable[[], Cassette],
        folder: Callable[[], Path],
        actor: str = "",
        above: Callable[[], OutsideAgents] | None = None,
    ) -> None:
        self.server: Callable[[], KernelServer | None] | None = None
        self.watch_saves: Callable[[], NotebookFile | None] | None = None
        self._tract = tract
        self._repository = repository
        self._generation = generation
        self._loop = loop
        self._review = review
        self._answers = answers
        self._effects = effects
        self._backups = backups
        self._cassette = cassette
        self._folder = folder
        self._actor = actor
        self._above = above
        self._default = ""
        self._chosen: dict[str, tuple[AgentSettings, tuple[str, ...]]] = {}
        self._sessions: dict[str, _Running] = {}
        self._turns: list[_Turn] = []
        self._lock = threading.Lock()

    @property
    def default(self) -> str:
        """The agent of `use`; empty for none."""
        return self._default

    @property
    def known(self) -> tuple[str, ...]:
        """The names of the known agents."""
        return tuple(one.name for one in agents.AGENTS)

    def about(self, agent: str) -> str:
        """Return the title of an agent, and when it asks."""
        settings, _ = self._settings(agent)
        return f"{settings.title}. {settings.about}"

    @property
    def is_of_tree(self) -> bool:
        """True if they work for an agent of the tree."""
        return bool(self._actor)

    @property
    def is_in_turn(self) -> bool:
        """True while an agent works on a message."""
        return bool(self._turns)

    @property
    def running(self) -> tuple[str, ...]:
        """The names of the agents whose processes run."""
        return tuple(name for name, one in self._sessions.items() if one.session.process.is_running)

    def use(self, agent: str, *, env: Sequence[str] = (), command: str = "") -> AgentSettings:
        """Use an agent by default, and return its settings.

        Args:
            agent: a known name, such as `claude`, or a command line.
            env: the variables of this process that the agent gets, such as `ANTHROPIC_API_KEY`.
            command: the command line that starts a known agent, such as its program in a container. The other settings
                of the agent stay. The default is its usual program.

        Raises:
            OutsideAgentError: the agent is unknown, or the command line is invalid.
            AdminLimitError: the administrator's limits do not allow outside agents.
        """
        admin_limits().check_outside_agents()
        settings = settings_of(agent)
        if command:
            settings = settings.with_command(command)
        chosen = (settings, tuple(env))
        if chosen != self._chosen.get(agent):
            self._chosen[agent] = chosen
            self._close(agent)
        self._default = agent
        return settings

    def secrets(self) -> list[str]:
        """Return the values of the variables that the user named for an agent, for masking."""
        names = {name for _, some in self._chosen.values() for name in some}
        return [os.environ[name] for name in names if name in os.environ]

    def stop(self) -> tuple[str, ...]:
        """End the processes of all agents, and use the model again. Return the names of the agents.

        It takes 4 seconds at most.
        """
        self._default = ""
        names = tuple(self._sessions)
        workers = [Worker(lambda name=name: self._close(name), "tract-agent-end") for name in names]  # type: ignore[misc] # mypy does not see the default
        for worker in workers:
            worker.join(_SETTLE_SECONDS)
        return names

    def close(self) -> None:
        """End all agents."""
        self.stop()

    def chat(
        self,
        agent: str,
        text: str,
        *,
        name: str | None = None,
        attachments: Sequence[Attachable] = (),
        on_turn: Callable[[TurnEvent], object] | None = None,
    ) -> ChatResponse:
        """Commit a message of the user, and let an agent work on it until it ends its turn. See `Tract.chat`.

        Raises:
            OutsideAgentError: the agent cannot be started, cannot be made to ask, or left.
            AdminLimitError: the administrator's limits do not allow outside agents.
            CassetteError: a cassette is replayed, and does not have this turn.
            TractError: the message cannot be committed.
        """
        admin_limits().check_outside_agents()
        settings, _ = self._settings(agent)
        loop, before = self._loop(), self._repository.refs.position.commit_hash
        files = self._repository.files.load(attachments)
        with loop.signal() as stop, loop.asking(TurnRequest(), text, name, files, needs_model=False) as held:
            if held.waits:
                raise OutsideAgentError(
                    "The reply to this message waits for your decision. %tract inbox shows it."
                )
            observer = TurnObserver(self._repository, on_turn or (lambda _event: None))
            message = _Message(text, files, before, held.lease.question or "")
            turn = _Turn(self, agent, settings, message, observer, stop)
            with self._generation.turns.answering():
                self._turns.append(turn)
                try:
                    return observer.observe(turn)
                except StoppedEarlyError as stopped:
                    held.lease.has_failed = True
                    return stopped.response
                finally:
                    self._turns.remove(turn)

    # --- for the turn

    def ready(self, agent: str, settings: AgentSettings, message: _Message, stop: StopSignal) -> _Running:
        """Return a session that knows the history before the message, in the mode that asks."""
        with changed_context(effects=self._effects().recorder(lambda: message.question)):
            server, why_not = self._serve(settings)  # its calls belong to this turn
        running = self._sessions.get(agent)
        known = self._digest(message.before)
        if running is not None and running.is_usable(stop, server) and running.known == known:
            running.is_new = False
            running.session.ensure_asking(running.listen)
            return running
        self._close(agent)
        _, names = self._settings(agent)
        traffic = AgentTraffic(self._cassette(), settings.name, self._actor)
        session = AgentSession(settings, self._folder(), names, server, traffic)
        session.stop = stop
        running = _Running(session, server, why_not)
        with self._lock:
            self._sessions[agent] = running
        try:
            earlier = traffic.draw("session", lambda: self._earlier_session(settings.name, message.before))
            is_loaded = session.open(running.listen, earlier)
        except BaseException:
            self._close(agent)
            raise
        running.earlier = "" if is_loaded else self._transcript(message.before)
        running.instructions = "" if is_loaded else self._instructions(message.before)
        return running

    def ended(self, running: _Running) -> None:
        """Note what the session knows after a turn. If the agent still works, wait for its end in another thread."""
        session, database = running.session, self._repository.database
        running.known = self._digest(self._repository.refs.position.commit_hash)
        data = {"session": session.session_id, "known": running.known}
        with suppress(TractError), database.write() as connection:
            self._repository.events.append(connection, _SESSION_EVENT, session.settings.name, data)
        if session.has_left:
            session.close()
        elif (
            session.is_prompting and session.traffic.is_active
        ):  # a replay could not repeat the late messages
            session.traffic.flush()
            running.settling = Worker(session.close, "tract-agent-settle")
        elif session.is_prompting:
            session.stop = StopSignal()
            running.settling = Worker(lambda: session.settle(_SETTLE_SECONDS), "tract-agent-settle")
        session.traffic.flush()

    def turn(
        self, running: _Running, prompt: list[dict[str, Any]], observer: TurnObserver, stop: StopSignal
    ) -> OutsideTurn:
        """Return the turn of a session."""
        return OutsideTurn(
            running.session, prompt, self._repository, self._answers(), self._review().reviewer, observer, stop,
            self._tract, actor=self._actor,
        )  # fmt: skip

    def notebook(self) -> NotebookFile | None:
        """Return the file of the open notebook, from now on; None if it is not known."""
        if self._above is not None:
            return self._above().notebook()
        return None if self.watch_saves is None else self.watch_saves()

    @property
    def backups(self) -> Backups:
        """The earlier contents of files."""
        return self._backups()

    def recorded_files(self, question: str) -> set[str]:
        """Return the files that approved code changed in the kernel during a turn."""
        return {name for one in self._effects().of(question) for name in (*one.files, *one.lost)}

    def record(self, question: str, change: Change) -> None:
        """Record changed files for the undo of a turn."""
        recorder = call_context().effects or self._effects().recorder(
            lambda: question
        )  # of the outermost turn
        recorder.changed(change)

    # ---

    def _serve(self, settings: AgentSettings) -> tuple[KernelServer | None, str]:
        """Return the kernel's server for an agent, or the reason why it gets none."""
        if self.server is None:
            return None, ""
        if self._cassette().tape is not None:
            return None, "a cassette is active, and a replay cannot repeat the agent's calls"
        if why_not := settings.why_no_kernel(self._folder()):
            return None, why_not
        try:
            return self.server(), ""
        except TractError as error:
            return None, one_line(str(error), 300)

    def _close(self, agent: str) -> None:
        with self._lock:
            running = self._sessions.pop(agent, None)
        if running is not None:
            running.session.close()

    def _messages(self, commit: str | None) -> Sequence[Message]:
        return () if commit is None else self._repository.compiler.of(commit).messages

    def _digest(self, commit: str | None) -> str:
        messages = self._messages(commit)
        return digest([[one.role, one.content, [call.id for call in one.tool_calls]] for one in messages])

    def _earlier_session(self, name: str, commit: str | None) -> str:
        """Return the id of the agent's session that made the last message of the history; empty if there is none."""
        for message in reversed(self._messages(commit)):
            if message.role == "assistant" and message.commit_hash is not None:
                made = self._repository.commits.get(message.commit_hash).metadata.get(SESSION)
                is_its = isinstance(made, dict) and made.get("agent") == name
                session = str(made.get("session") or "") if is_its and isinstance(made, dict) else ""
                return session if self._knows_only(session, commit) else ""
            if message.role == "user":
                return ""
        return ""

    def _knows_only(self, session: str, commit: str | None) -> bool:
        """Return True if the last turn of a session ended with this history. Undo and forks leave later messages."""
        with self._repository.database.read() as connection:
            events = self._repository.events.newest(connection, _SESSION_EVENT, _MOST_SESSIONS)
        last = next((one.data for one in events if one.data.get("session") == session), None)
        return last is not None and last.get("known") == self._digest(commit)

    def _settings(self, agent: str) -> tuple[AgentSettings, tuple[str, ...]]:
        chosen = self._chosen.get(agent)
        if chosen is not None:
            return chosen
        return (settings_of(agent), ()) if self._above is None else self._above()._settings(agent)  # noqa: SLF001 # the same class

    def _instructions(self, commit: str | None) -> str:
        texts = [one.content.strip() for one in self._messages(commit) if one.role == "system"]
        return "\n\n".join(filter(None, texts))[:_MOST_EARLIER]

    def _transcript(self, commit: str | None) -> str:
        """Return the conversation as a text for an agent that does not know it."""
        lines = [
            f"{message.role.capitalize()}: {message.content.strip()}"
            for message in self._messages(commit)
            if message.role in {"user", "assistant"} and message.content.strip()
        ]
        return "\n\n".join(lines)[-_MOST_EARLIER:]


class _Message(NamedTuple):
    text: str
    files: Sequence[AttachedFile]
    before: str | None
    question: str


class _Running:
    """A session with what it knows.

    Attributes:
        known: the digest of the history that the agent knows.
        earlier: the conversation that the agent gets with its next prompt.
        instructions: the instructions of the context, which it gets with its next prompt.
        is_new: True in the first turn of the session.
        settling: waits for the end of a cancelled prompt; None if there is none.
        why_no_kernel: the reason why the kernel is not offered to it; empty if it is, or if there is none.
    """

    def __init__(self, session: AgentSession, server: KernelServer | None, why_no_kernel: str) -> None:
        self.session = session
        self._server = server
        self.why_no_kernel = why_no_kernel
        self.known = ""
        self.earlier = self.instructions = ""
        self.is_new = True
        self.settling: Worker[None] | None = None
        self.before: list[object] = []
        """Items that came between two turns."""

    def listen(self, item: object) -> None:
        """Keep an item for the next turn, up to a number. Decline a later request: its agent waits for the answer."""
        if len(self.before) < _MOST_BEFORE:
            self.before.append(item)
        else:
            self.session.decline(item)

    def with_earlier(self, text: str) -> str:
        """Return a message with the instructions and the conversation that the agent does not know, once."""
        earlier, instructions = self.earlier, self.instructions
        self.earlier = self.instructions = ""
        message = _EARLIER.format(text=earlier, message=text) if earlier else text
        return f"{instructions}\n\n{message}" if instructions else message

    def is_usable(self, stop: StopSignal, server: KernelServer | None) -> bool:
        """Return True if the agent runs, knows this server, and works on no prompt. Wait for a cancelled one."""
        self.session.stop = stop
        while self.settling is not None and self.settling.is_running:
            stop.check()
            self.settling.join(0.05)
        self.settling = None
        is_idle = self.session.process.is_running and not self.session.is_prompting
        return is_idle and self.session.traffic.is_current and self._server == server


class _SavedNotebook:
    """The open notebook among the changed files of a turn. A save by its page is no change of the agent."""

    def __init__(self, notebook: NotebookFile | None, watched: FileWatch) -> None:
        self._watched = watched
        self._notebook = notebook
        self._path = "" if notebook is None else shown(notebook.path.resolve(), watched.workspace)

    def without(self, changed: set[str]) -> set[str]:
        """Return the changed files without a saved notebook."""
        is_saved = self._path in changed and self._notebook is not None and self._notebook.is_saved_only
        return changed - {self._path} if is_saved else changed

    def leave_out(self, observer: TurnObserver) -> None:
        """Leave a saved notebook out of the recorded changes, and say so. An undo would restore an earlier save."""
        changed = self._watched.changed_now()
        if len(self.without(changed)) < len(changed):
            self._watched.leave_out(self._path)
            observer.noted(
                TurnNoted("The open notebook was saved.", _SAVED.format(one_line(self._path, _NAME)))
            )


class _Turn:
    """A turn with the start of its agent before it, and the comparison of files after it."""

    def __init__(
        self,
        agents: OutsideAgents,
        agent: str,
        settings: AgentSettings,
        message: _Message,
        observer: TurnObserver,
        stop: StopSignal,
    ) -> None:
        self.on_delta: Callable[[Delta], object] | None = None
        self._agents = agents
        self._agent = agent
        self._settings = settings
        self._message = message
        self._observer = observer
        self._stop = stop

    def run(self) -> ChatResponse:
        """Start the agent if necessary, run its turn, and record the changed files.

        Raises:
            StoppedEarlyError: it was stopped before there was any reply.
            OutsideAgentError: see `OutsideAgents.chat`.
        """
        owner = self._agents
        try:
            running = owner.ready(self._agent, self._settings, self._message, self._stop)
        except Stopped:
            info = owner._repository.commits.get(self._message.question)  # noqa: SLF001 # the same module
            note = "stopped before the agent was ready; send the message again"
            raise StoppedEarlyError(
                ChatResponse("", info, outcome=TurnOutcome.STOPPED, note=note, steps=0)
            ) from None
        self._report_known_state(running)
        prompt = list(
            prompt_content(running.session, running.with_earlier(self._message.text), self._message.files)
        )
        turn = owner.turn(running, prompt, self._observer, self._stop)
        turn.on_delta = self.on_delta
        turn.earlier, running.before = running.before, []
        watched = watch_files(running.session.folder, owner.backups)
        turn.notebook = notebook = owner.notebook()
        saved = _SavedNotebook(notebook, watched)
        turn.changed_files = lambda: (
            saved.without(watched.changed_now()) - owner.recorded_files(self._message.question)
        )
        try:
            return turn.run()
        finally:
            owner.ended(running)
            saved.leave_out(self._observer)
            self._record(watched.finish, turn)

    def _report_known_state(self, running: _Running) -> None:
        settings = self._settings
        if running.is_new:
            why = running.why_no_kernel.rstrip(".")
            what = "The granted tools are" if self._agents.is_of_tree else "The kernel is"
            kernel = f"{what} not offered to it: {why}." if why else ""
            text = " ".join(filter(None, [settings.about if settings.is_known else "", kernel]))
            title = f"{settings.title} works in {running.session.folder.name or '/'}."
            self._observer.noted(TurnNoted(title, text))
        if not settings.is_known:
            self._observer.noted(TurnNoted(agents.UNKNOWN, is_warning=True))

    def _record(self, finish: Callable[[], Change], turn: OutsideTurn) -> None:
        """Record the changed files for the undo, and show the ones that no approved diff explains."""
        try:
            change, ours = finish(), self._agents.recorded_files(self._message.question)
            self._agents.record(self._message.question, change)
        except RehearsalError as error:
            self._observer.noted(
                TurnNoted("The files of this turn cannot be restored.", str(error), is_warning=True)
            )
            return
        except TractError:
            return  # of the store; the error of the turn is more important
        note = turn.unasked(lambda: {*change.files, *change.lost} - ours)
        if note is not None:
            self._observer.noted(note)
