"""The model of these notebooks: a script that knows their questions, and nothing else.

It stands behind a real address of this machine and speaks OpenAI's chat completions, streamed, so that
everything between the notebook and the model is as it would be with another one: requests, tools, questions,
refusals, tokens. What it says is written below. It reads the conversation that it is sent and keeps no state,
so a turn that was undone is unknown to it, as to any other model.

    import scripted_model
    %tract model scripted --base-url {scripted_model.start()}
"""

from __future__ import annotations

import json
import re
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from time import sleep
from typing import Any, Final

WORDS_PER_SECOND: Final = 60
"""How fast it speaks; its code comes at once."""


@dataclass
class Reply:
    """What it says next: a text, and a tool that it calls, if any; `also` are further calls of the same step."""

    text: str
    tool: str = ""
    arguments: dict[str, Any] = field(default_factory=dict)
    also: tuple[tuple[str, dict[str, Any]], ...] = ()

    @property
    def calls(self) -> list[tuple[str, dict[str, Any]]]:
        """All that it calls."""
        return [(self.tool, self.arguments), *self.also] if self.tool else []


@dataclass
class Turn:
    """What was asked last, and what came of the calls since: by the code or the name of a tool, what it was told.

    A call for an agent has the agent's name behind that of the tool. `instructions` is what the system said.
    """

    asked: str
    told: dict[str, str]
    instructions: str = ""

    def is_new(self, call: str) -> bool:
        """Whether it has not made that call in this turn."""
        return call not in self.told

    def ran(self, call: str) -> bool:
        """Whether that call was carried out."""
        return '"status": "completed"' in self.told.get(call, "")


NOBODY: Final = "no user is available"
REFUSED: Final = "I rejected "
"""How a person's refusal begins, as models are told of it."""

# --- what it says in quickstart.ipynb

LOOK = """\
print(len(sightings), "rows,", sightings["date"].isna().sum(), "without a date")
print(sightings["species"].value_counts().to_string())"""

RENAMED = """\
names = {
    "graet tit": "great tit", "great tits": "great tit", "black bird": "blackbird", "blackbrid": "blackbird",
    "robbin": "robin", "barn swalow": "barn swallow", "house sparow": "house sparrow",
    "magpye": "magpie", "wrenn": "wren",
}
clean = sightings.dropna(subset=["date"]).copy()
clean["date"] = pd.to_datetime(clean["date"])
clean["species"] = clean["species"].str.strip().str.lower().replace(names)
"""

IN_PLACE = f'{RENAMED}clean.to_csv("data/sightings.csv", index=False)'

PLOT = """\
(
    clean.assign(month=clean["date"].dt.strftime("%B"))
    .pivot_table(index="month", columns="species", values="count", aggfunc="sum", sort=False)
    .pipe(lambda counts: counts[counts.sum().nlargest(3).index])
    .plot.bar(figsize=(8, 2.7), xlabel="", ylabel="birds counted", rot=0)
)
plt.legend(title="", loc="upper left", bbox_to_anchor=(1, 1))
plt.show()"""

COPY_AND_PLOT = f"{RENAMED}{PLOT}"

JUNE = """\
clean[clean["date"].dt.month == 6].groupby("species")["count"].sum().nlargest(3).to_dict()"""


def cleaning(turn: Turn) -> Reply:
    """Clean the table, and plot it: it looks first, tries to save, and works on a copy if that is rejected."""
    if turn.is_new(LOOK):
        return in_notebook("I look at the table first.", LOOK)
    if not turn.ran(LOOK):
        return nothing_done(turn.told[LOOK])
    if turn.is_new(IN_PLACE):
        found = "**Twelve spellings are wrong**, in 57 rows, and 23 rows have no date."
        return in_notebook(f"{found} I correct the names, drop those rows and save the file.", IN_PLACE)
    saved = turn.ran(IN_PLACE)
    plot = PLOT if saved else COPY_AND_PLOT
    if turn.is_new(plot):
        copy = (
            "" if saved else "Understood: the file stays as it is. I clean a copy, and keep it as `clean`. "
        )
        return in_notebook(f"{copy}Now the three species that were counted most, by month.", plot)
    if not (saved or turn.ran(plot)):
        return nothing_done(turn.told[plot])
    plotted = "The plot is above. " if turn.ran(plot) else "You did not want the plot, so there is none. "
    changed = (
        "You changed my code before it ran; I go by yours. "
        if "changed_by_the_person" in turn.told[plot]
        else ""
    )
    file = "and the file has the clean rows now." if saved else "and `data/sightings.csv` is untouched."
    told = "Great tits lead in spring and in June; **barn swallows** come in April and lead in May and July."
    return Reply(f"{plotted}{changed}{told}\n\n`clean` has 409 rows and 8 species, {file}")


def june(turn: Turn) -> Reply:
    """Answer a question about the clean table."""
    if turn.is_new(JUNE):
        return in_notebook("", JUNE)
    if not turn.ran(JUNE):
        return nothing_done(turn.told[JUNE])
    return Reply("The **great tit**, with 83 birds; the barn swallow follows with 63, the robin with 34.")


def in_notebook(text: str, code: str) -> Reply:
    """Have code run in the notebook of the person, who reads it first."""
    return Reply(text, "notebook_execute", {"code": code, "backend": "kernel", "notebook_id": "user"})


def nothing_done(told: str) -> Reply:
    """Give up politely."""
    why = "nobody could be asked" if NOBODY in told else "my code was not run"
    return Reply(f"I changed nothing, as {why}.")


# --- what it says in the other notebooks

RARE = """\
rare = {}
for species in ["great tit", "barn swallow", "robin", "hoopoe"]:
    seen = sum(tools.sightings(species=species))
    if seen < 20:
        rare[species] = seen
rare"""

SEND = """\
if len(pending.fields["text"]) > limit:
    pending.reject("too long for the newsletter")
else:
    pending.approve()
"""
NEWSLETTER = {
    "name": "newsletter",
    "description": "Send a text to the newsletter",
    "fields": {"text": {"type": "str", "required": True}},
    "actions": {
        "send": {
            "description": "Send it, if it is short enough",
            "params": {"limit": "int"},
            "defaults": {"limit": 200},
            "code": SEND,
        }
    },
}


FULL: Final = 50
"""From how many percent of its budget on a context is too large for it."""
KEPT: Final = 6
"""How many of the newest messages it leaves alone."""
DIARY: Final = (
    "From March to July the great tit was counted most (297), above all in March and June. "
    "Barn swallows (268) came in April and led in May and July."
)
WHY: Final = (
    "The context comes close to its budget. Its weekly reports say little that their sum does not say."
)
LONGER: Final = "The configured model writes the summary instead."


def rare(turn: Turn) -> Reply:
    """Call a tool in a loop, from a script in the sandbox."""
    if turn.is_new(RARE):
        return Reply("", "notebook_execute", {"code": RARE})
    return Reply("Only the **hoopoe**: it was seen 12 times." if turn.ran(RARE) else "I could not find out.")


def newsletter(turn: Turn) -> Reply:
    """Propose an operation."""
    if turn.is_new("propose_operation"):
        return Reply("I write an operation for that.", "propose_operation", NEWSLETTER)
    return Reply("`newsletter` waits for you: it runs nothing before you have read it.")


def guard(turn: Turn) -> Reply:
    """Answer the two questions of the guard in runs.ipynb."""
    question = turn.asked.splitlines()[-1]
    return Reply(json.dumps({"about_birds": "bird" in question, "needs_a_table": "every month" in question}))


def looking_after(turn: Turn) -> Reply:
    """Look after the context of orchestrator.ipynb: as the orchestrator's model it is told where that stands."""
    size = re.search(r"- tokens: ([\d,]+) of ([\d,]+) \((\d+)%\)", turn.asked)
    is_asked = "sum up what you can" in turn.asked
    if size is None or (int(size[3]) < FULL and not is_asked):
        return Reply("The context is fine as it is. I call nothing.")
    if turn.is_new("log"):
        return Reply(
            f"{size[1]} of {size[2]} tokens are used. I look at its newest messages first.",
            "log",
            {"limit": 12},
        )
    if turn.is_new("compress"):
        newest = re.findall(r'"commit_hash": ?"(\w+)"', turn.told["log"])
        upto = {"to_commit": newest[min(KEPT, len(newest) - 1)]}
        if "autonomy: collaborative" not in turn.asked:
            why = f"{size[3]} % of the budget are used; the newest {KEPT} messages stay word for word."
            told = {"instructions": "Keep numbers.", "reasoning": why}
            return Reply("The older weeks can be a summary.", "compress", {**upto, **told})
        told = {
            "reasoning": WHY,
            "alternatives": [
                {"name": "compress", "arguments": {**upto, "target_tokens": 100}, "why": LONGER}
            ],
        }
        return Reply(
            "The weeks of spring and summer can be **one message**.",
            "compress",
            {"content": DIARY, **upto, **told},
        )
    told = turn.told["compress"]
    if "tokens_after" not in told:
        return Reply(nothing_done(told).text if NOBODY in told else "Then I leave the context as it is.")
    figures = [int(re.search(rf'"tokens_{when}": ?(\d+)', told)[1]) for when in ("before", "after")]  # type: ignore[index]
    yours = " You changed my summary; yours is what is kept." if "The user changed the call" in told else ""
    return Reply(
        f"The context went from {figures[0]:,} to {figures[1]:,} tokens.{yours} The rules stand as they were."
    )


def summary(turn: Turn) -> Reply:
    """Sum up messages: the autumn's reports of orchestrator.ipynb, or what was asked about a table."""
    weeks = [(int(week), int(count)) for week, count in re.findall(r"Week (\d+): (\d+) coots", turn.asked)]
    if not weeks:
        return Reply("Counted most: the great tit in spring (178), the barn swallow in summer (122).")
    counts = [count for _, count in weeks]
    first, last = weeks[0][0], weeks[-1][0]
    return Reply(
        f"Weeks {first} to {last}: {min(counts)} to {max(counts)} coots a week, {sum(counts)} in all."
    )


# --- what it says in agents.ipynb, as the one who makes agents, and as the agents

SPECIES: Final = "species_expert"
PLACES: Final = "places_expert"
EXPERTS: Final[tuple[tuple[str, dict[str, Any]], ...]] = tuple(
    (
        "agent_create",
        {
            "name": name,
            "description": f"Knows which {what} the sightings are of.",
            "instructions": f"You know the {what} of the sightings at the lake. {how}",
            "tools": ["birds_by"],
            "budget": {"steps": 8},
        },
    )
    for name, what, how in (
        (SPECIES, "species", "Count before you answer. Give numbers, and percent of all birds."),
        (PLACES, "places", "Count before you answer. Name the place with most birds."),
    )
)
QUESTIONS: Final = {
    SPECIES: "Which species lead? It is for the first sentence of a report.",
    PLACES: "Which places lead? It is for the second sentence of a report.",
}
BETTER: Final = (
    "You know the places of the sightings at the lake. Count before you answer. Name all places, each with its "
    "number of birds and percent of all birds. Say it in one sentence."
)


def reporting(turn: Turn) -> Reply:
    """Have two agents made and called, judge what they say, and have the worse one be better."""
    if turn.is_new(f"agent_create {SPECIES}"):
        text = "I want two specialists, each with one tool and a small budget. **You read them first.**"
        return Reply(text, *EXPERTS[0], also=EXPERTS[1:])
    made = [name for name in (SPECIES, PLACES) if '"version"' in turn.told[f"agent_create {name}"]]
    if not made:
        return nothing_done(next(iter(turn.told.values())))
    if turn.is_new(f"agent_call {made[0]}"):
        calls = [("agent_call", {"agent": name, "input": QUESTIONS[name]}) for name in made]
        return Reply("Both can look at once." if len(made) > 1 else "", *calls[0], also=tuple(calls[1:]))
    said = {name: answer_of(turn.told[f"agent_call {name}"]) for name in made}
    if turn.is_new(f"agent_update {PLACES}") and said.get(PLACES) and "%" not in said[PLACES]:
        judged = (
            f"`{SPECIES}` gives numbers, and says what they are of. `{PLACES}` names **one place and no number**, "
            "which is no half of a report. Its instructions did not ask for more, so I change them."
        )
        return Reply(judged, "agent_update", {"agent": PLACES, "instructions": BETTER})
    is_better = '"version"' in turn.told.get(f"agent_update {PLACES}", "")
    if is_better and turn.is_new(f"agent_call {PLACES} again"):
        again = {"agent": PLACES, "input": f"{QUESTIONS[PLACES]} Name all of them, please."}
        return Reply("The same question, to the new version.", "agent_call", again)
    if is_better:
        said[PLACES] = answer_of(turn.told[f"agent_call {PLACES} again"])
    return Reply(" ".join(filter(None, said.values())) or "I have no answer of theirs.")


def answer_of(told: str) -> str:
    """Return what an agent answered; empty if it did not."""
    try:
        found = json.loads(told)
    except ValueError:
        return ""
    return str(found.get("answer", "")) if isinstance(found, dict) else ""


def expert(turn: Turn) -> Reply:
    """Be one of the two specialists: count first, then say as much as the instructions ask for."""
    what = "place" if "the places" in turn.instructions else "species"
    if turn.is_new("birds_by"):
        return Reply("", "birds_by", {"column": what})
    counts = {name: int(count) for name, count in re.findall(r'"([\w ]+)": ?(\d+)', turn.told["birds_by"])}
    if not counts:
        return Reply("I could not count them.")
    total, ranked = sum(counts.values()), sorted(counts, key=lambda name: -counts[name])
    if "percent" not in turn.instructions:
        return Reply(f"Most birds are at {ranked[0]}.")
    shown = ranked if what == "place" else ranked[:3]
    parts = [f"{name} {counts[name]} ({100 * counts[name] // total} %)" for name in shown]
    told = f"{', '.join(parts[:-1])} and {parts[-1]}"
    return Reply(f"By place it is {told}." if what == "place" else f"The {told} lead among {total:,} birds.")


def said(text: str) -> Any:
    """Return what always says the same."""
    return lambda _: Reply(text)


ANSWERS: Final = (
    # what is asked, as a pattern, and who answers; the first that fits
    (r"^Answer with JSON", guard),
    (r"\bspecialists\b", reporting),
    (r"^Which (species|places) lead\?", expert),
    (r"^Context \w+, branch", looking_after),
    (r"The messages:", summary),
    (r"\bclean\b.*\btable\b|\btable\b.*\bclean\b", cleaning),
    (r"\brare\b", rare),
    (r"newsletter", newsletter),
    (r"leads? in June", june),
    (
        r"\bspring\b|March to May",
        said("The great tit: 178 birds between March and May, most of them in gardens."),
    ),
    (r"\bsummer\b", said("The barn swallow: 122 birds in June and July, most of them near farms.")),
    (r"bar chart", said("Here is the code:\n\ncounts.plot.bar(x='month', y='birds')")),
    (r"\bwinter\b", said("The barn swallow: it spends the winter in Africa.")),
    (r"\bJune\b", said("In June it was the great tit, with 83 birds.")),
    (r"\bJuly\b", said("In July it was the barn swallow, with 59 birds.")),
)


def answer(messages: list[dict[str, Any]]) -> Reply:
    """Return what it says next in a conversation."""
    last = max(
        (at for at, one in enumerate(messages) if one["role"] == "user" and not is_notice(one)), default=None
    )
    if last is None:
        return Reply("Nobody has asked me anything.")
    calls: dict[str, str] = {}
    told: dict[str, str] = {}
    for message in messages[last + 1 :]:
        for call in message.get("tool_calls") or ():
            arguments = json.loads(call["function"]["arguments"])
            key, name = arguments.get("code", call["function"]["name"]), str(call["function"]["name"])
            if name.startswith("agent_"):
                key = f"{name} {arguments.get('agent') or arguments.get('name')}"
            calls[call["id"]] = f"{key} again" if key in calls.values() else key
        if message["role"] == "tool":
            told[calls.get(message["tool_call_id"], "")] = str(message["content"])
    system = "\n".join(str(one["content"]) for one in messages if one["role"] == "system")
    turn = Turn(str(messages[last]["content"]), told, system)
    for pattern, answers in ANSWERS:
        if re.search(pattern, turn.asked, re.IGNORECASE | re.DOTALL):
            return answers(turn)
    return Reply(
        "I am a script, and know only the questions of these notebooks. `%tract model` chooses a real model."
    )


def is_notice(message: dict[str, Any]) -> bool:
    """Whether a message of the user is what they said when they refused a call."""
    content = message["content"]
    has_image = isinstance(content, list) and any(part.get("type") == "image_url" for part in content)
    return message["role"] == "user" and (has_image or str(content).startswith(REFUSED))


# --- how it says it

_MODEL: Final = "scripted"


class _Handler(BaseHTTPRequestHandler):
    """Chat completions, whole or streamed."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        reply = answer(asked["messages"])
        usage = _usage(asked, reply)
        if asked.get("stream"):
            self._stream(reply, usage)
        else:
            choice = {
                "index": 0,
                "message": {"role": "assistant", **_message(reply)},
                "finish_reason": _reason(reply),
            }
            body = json.dumps(
                {"id": "1", "object": "chat.completion", "model": _MODEL, "choices": [choice], "usage": usage}
            )
            self._head("application/json", ("Content-Length", str(len(body.encode()))))
            self.wfile.write(body.encode())

    def _stream(self, reply: Reply, usage: dict[str, int]) -> None:
        self._head("text/event-stream", ("Transfer-Encoding", "chunked"))
        for word in re.findall(r"\s*\S+\s*", reply.text):
            self._event({"choices": [{"index": 0, "delta": {"content": word}, "finish_reason": None}]})
            sleep(1 / WORDS_PER_SECOND)
        calls = [{"index": n, **call} for n, call in enumerate(_message(reply).get("tool_calls", ()))]
        delta = {"tool_calls": calls} if calls else {}
        self._event({"choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
        self._event({"choices": [{"index": 0, "delta": {}, "finish_reason": _reason(reply)}]})
        self._event({"choices": [], "usage": usage})
        self._chunk(b"data: [DONE]\n\n")
        self._chunk(b"")

    def _event(self, chunk: dict[str, Any]) -> None:
        whole = {"id": "1", "object": "chat.completion.chunk", "created": 0, "model": _MODEL, **chunk}
        self._chunk(f"data: {json.dumps(whole)}\n\n".encode())

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    def _head(self, kind: str, header: tuple[str, str]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header(*header)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing about requests."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """Say nothing about a client that went."""


def _message(reply: Reply) -> dict[str, Any]:
    if not reply.tool:
        return {"content": reply.text}
    calls = []
    for tool, arguments in reply.calls:
        function = {"name": tool, "arguments": json.dumps(arguments)}
        call_id = f"call_{abs(hash(function['arguments'])):x}"[:24]
        calls.append({"id": call_id, "type": "function", "function": function})
    return {"content": reply.text or None, "tool_calls": calls}


def _reason(reply: Reply) -> str:
    return "tool_calls" if reply.tool else "stop"


def _usage(asked: dict[str, Any], reply: Reply) -> dict[str, int]:
    """Count roughly, as it has no tokens: four characters are one."""
    sent = len(json.dumps([asked["messages"], asked.get("tools", [])])) // 4
    written = len(json.dumps(_message(reply))) // 4
    return {"prompt_tokens": sent, "completion_tokens": written, "total_tokens": sent + written}


_started: list[str] = []


def start() -> str:
    """Serve it on a free port of this machine until the process ends, and return the address; only once."""
    if not _started:
        server = _Server(("127.0.0.1", 0), _Handler)
        threading.Thread(target=server.serve_forever, name="scripted-model", daemon=True).start()
        _started.append(f"http://127.0.0.1:{server.server_port}/v1")
    return _started[0]


if __name__ == "__main__":
    print(start())
    threading.Event().wait()
