"""The requests of the snapshots: the cells that make them, and how each is decided."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

REJECTED = (("reject", {"reason": "Not before Friday."}),)
APPROVED = (("approve", {}),)
EXPIRED = (("expire", {}),)
KEPT = (("keep", {}),)


@dataclass(frozen=True)
class Kind:
    """A kind of request.

    The last of the `cells` asks; the others prepare. `states` are the decided states, each with the actions, and their
    arguments, that lead to it.
    """

    name: str
    cells: tuple[str, ...]
    states: dict[str, tuple[tuple[str, dict[str, Any]], ...]]


def changed(**edits: Any) -> tuple[tuple[str, dict[str, Any]], ...]:
    """An approval with other values."""
    return (("approve", {"edits": edits}),)


DEFINITION = '''\
%%tract_operation citation_check --activate
"""Verify that source URLs survive compression."""
urls: Annotated[list[str], "URLs to verify"]
verified: bool = False
def verify(pending, strict: bool = True):
    """Check that all URLs are in the context."""
    text = " ".join(message["content"] for message in pending.tract.compile().to_dicts())
    if strict and any(url not in text for url in pending.fields["urls"]):
        raise ValueError("a URL is missing")
    pending.fields["verified"] = True
    pending.approve()
    return "verified"
def clean(pending):
    """Remove the files."""
    import shutil
    shutil.rmtree("sources")
def wait(pending):
    """Wait until the user interrupts."""
    raise KeyboardInterrupt
'''
CLEANS = """\
from tests.review.rehearsed import CLEANING
from tests.scripts.rehearsals import rehearse_in
rehearse_in(tract).default = CLEANING
"""
LOOKS = CLEANS.replace("CLEANING", "LOOK")
FIRE = 'tract.fire("citation_check", {"urls": ["https://example.com"]}, review=True)'
PROPOSE = """\
from tract_jupyter import ActionDef, OperationSpec
go = ActionDef("go", "Send the report.", {"to": "str"}, "import smtplib\\nsmtplib.SMTP('mail').sendmail('me', to, 'x')", ["to"])
fields = {"day": {"type": "str", "default": "Monday", "description": "Day of the report"}}
tract.operations.propose(OperationSpec("send_report", "Send the weekly report.", fields, {"go": go}))
"""
NEXT_VERSION = """\
from tract_jupyter import ActionDef, OperationSpec
code = "import subprocess\\nsubprocess.run(['git', 'push'])\\npending.approve()"
verify = ActionDef("verify", "Check and push.", {}, code)
tract.operations.propose(OperationSpec("citation_check", "Verify URLs, and push.", {}, {"verify": verify}))
"""
NO_USER = """\
from tract_jupyter.review import Channel
tract.reviewer.channel = Channel()
"""
MODEL = """\
tract.user("Count the birds.")
model = tract.toolset(profile="full", actor="model")
"""
ASK_ALWAYS = """\
from tract_jupyter.toolkit import Permission
tract.executor.permission = lambda tool, actor: Permission.ASK
"""
CONVERSATION = """\
first = tract.system("Count the birds of the lake.")
tract.user("There were seven ducks.")
tract.assistant("I have noted seven ducks.")
"""
BRANCHES = """\
first = tract.user("Seven ducks.")
tract.branch("side")
tract.user("A heron came.")
tract.switch("main")
"""
SCRIPTED = """\
class Model:
    def __init__(self, *replies):
        self.replies = list(replies)
    def chat(self, messages, **options):
        return {"choices": [{"message": self.replies.pop(0)}], "model": "scripted-1"}
def says(text, **call):
    import json
    calls = [{"id": f"c{n}", "type": "function", "function": {"name": name, "arguments": json.dumps(given)}}
             for n, (name, given) in enumerate(call.items())]
    return {"role": "assistant", "content": text, **({"tool_calls": calls} if calls else {})}
"""
HANDLER = """\
tract.hooks.propose_handler("citation_check", "no_urls", "if not pending.fields['urls']:\\n    pending.reject('no URLs')")
"""
SCRIPT = """\
code = "import json\\nprint(json.dumps([1, 2]))\\ntools.status()['branch']"
model.execute("notebook_execute", {"code": code})
"""
KERNEL_SCRIPT = """\
code = "total = 3\\nprint(total)\\nwith open('log.txt', 'w') as file:\\n    file.write('x')"
model.execute("notebook_execute", {"code": code, "backend": "kernel"})
"""
CALLING_SCRIPT = """\
code = "for name in ['heron', 'duck']:\\n    tools.tag(commit_hash='HEAD', tag=name)"
tract.scripts.run(code, backend="sandbox")
"""
COMMIT = """\
content = {"content_type": "instruction", "text": "Be brief."}
model.execute("commit", {"content": content, "message": "rules"})
"""
RESET = """\
tract.user("Seven ducks.")
model.execute("reset", {"target": "HEAD~1"})
"""
SERVER = """\
tract.mcp.add("files", {server})
"""
CREATE_AGENT = """\
model.execute("agent_create", {
    "name": "counter", "instructions": "Count birds.\\nAnswer with a number.", "description": "Counts birds",
    "tools": ["commit"], "budget": {"steps": 5},
})
"""
CHANGE_AGENT = """\
tract.agents.create("counter", "Count birds.", "Counts birds", tools=["commit"])
model.execute("agent_update", {"agent": "counter", "instructions": "Count birds and frogs.", "tools": ["commit", "tag"]})
"""
ADOPT_AGENT = """\
from pathlib import Path
text = "---\\nname: counter\\ndescription: Counts birds\\ntools:\\n- commit\\n---\\nCount birds."
Path("counter.agent").write_text(text)
%tract agents adopt counter.agent
"""
CONFLICT = """\
tract.user("Eight ducks.", edit=first.commit_hash)
tract.switch("side")
tract.user("Nine ducks.", edit=first.commit_hash)
tract.switch("main")
"""
REBASE = """\
tract.user("Eight ducks.")
tract.switch("side")
tract.propose_rebase("main")
"""
GC = """\
tract.delete_branch("side", force=True)
tract.propose_gc(orphan_retention_days=0)
"""
GENERATE = """\
tract.user("How many ducks?")
tract.configure_llm(Model(says("Seven.")))
tract.propose_generate()
"""
TOOL_RESULT = """\
tract.assistant("", tool_calls=[{"id": "a", "name": "look", "arguments": {}}])
tract.propose_tool_result("a", "look", "seven ducks")
"""
POLICY = """\
tract.user("old")
tract.policies.propose("tidy", "annotate", {"target_hash": "HEAD", "priority": "skip"}, reason="It is old.")
"""
ORCHESTRATE = """\
tract.configure_llm(Model(says("It is long.", compress={"content": "Seven ducks."}), says("Done.")))
tract.orchestrator.run()
"""

KINDS = (
    Kind(
        "operation",
        (DEFINITION, 'tract.user("See https://example.com")', FIRE),
        {
            "run": (("verify", {"strict": True}),),
            "approved without running": APPROVED,
            "changed": changed(urls=["https://example.org"]),
            "failed": (("clean", {}),),
            "stopped": (("wait", {}),),
            "rejected": REJECTED,
            "expired": EXPIRED,
        },
    ),
    Kind("operation definition", (PROPOSE,), {"approved": APPROVED, "rejected": REJECTED}),
    Kind("operation version", (DEFINITION, NEXT_VERSION), {"approved": APPROVED}),
    Kind("handler", (DEFINITION, HANDLER), {"approved": APPROVED, "rejected": REJECTED}),
    Kind(
        "script in sandbox",
        (NO_USER, MODEL, ASK_ALWAYS, SCRIPT),
        {"approved": APPROVED, "changed": changed(code="1 / 0"), "rejected": REJECTED},
    ),
    Kind(
        "script in kernel",
        (NO_USER, MODEL, KERNEL_SCRIPT),
        {
            "approved": APPROVED,
            "failed": changed(code="1 / 0"),
            "stopped": changed(code="raise KeyboardInterrupt"),
            "rejected": REJECTED,
        },
    ),
    Kind(
        "rehearsed script",
        (NO_USER, MODEL, CLEANS, KERNEL_SCRIPT),
        {"kept": KEPT, "rejected": REJECTED},
    ),
    Kind("look", (NO_USER, MODEL, LOOKS, KERNEL_SCRIPT), {"kept": KEPT}),
    Kind(
        "call of a script",
        (NO_USER, MODEL, ASK_ALWAYS, CALLING_SCRIPT),
        {
            "approved": APPROVED,
            "changed": changed(tag="bird"),
            "rejected": REJECTED,
            "expired": EXPIRED,
        },
    ),
    Kind(
        "tool call",
        (NO_USER, MODEL, ASK_ALWAYS, COMMIT),
        {
            "approved": APPROVED,
            "changed": changed(message="better"),
            "rejected": REJECTED,
            "expired": EXPIRED,
        },
    ),
    Kind(
        "destructive tool call",
        (NO_USER, MODEL, ASK_ALWAYS, 'model.execute("gc", {})'),
        {"approved": APPROVED},
    ),
    Kind("reset", (NO_USER, MODEL, ASK_ALWAYS, RESET), {"approved": APPROVED, "rejected": REJECTED}),
    Kind(
        "MCP tool",
        (NO_USER, MODEL, ASK_ALWAYS, SERVER, 'model.execute("files.go", {"n": 3})'),
        {"approved": APPROVED, "changed": changed(n=4), "rejected": REJECTED},
    ),
    Kind(
        "agent creation",
        (NO_USER, MODEL, CREATE_AGENT),
        {"approved": APPROVED, "changed": changed(instructions="Count frogs."), "rejected": REJECTED},
    ),
    Kind("agent change", (NO_USER, MODEL, CHANGE_AGENT), {"approved": APPROVED, "rejected": REJECTED}),
    Kind("agent adoption", (NO_USER, ADOPT_AGENT), {"approved": APPROVED, "rejected": REJECTED}),
    Kind(
        "compress",
        (CONVERSATION, 'tract.propose_compress(content="Seven ducks were noted.")'),
        {
            "approved": APPROVED,
            "changed": (("edit_summary", {"index": 0, "text": "Seven ducks."}), *APPROVED),
            "rejected": REJECTED,
        },
    ),
    Kind(
        "merge with a conflict",
        (BRANCHES, CONFLICT, 'tract.propose_merge("side")'),
        {
            "chosen theirs": (("approve", {"edits": "theirs"}),),
            "another text": (("approve", {"edits": "Eight or nine ducks."}),),
            "rejected": REJECTED,
        },
    ),
    Kind(
        "merge", (BRANCHES, 'tract.user("Eight ducks.")\ntract.propose_merge("side")'), {"approved": APPROVED}
    ),
    Kind("rebase", (BRANCHES, REBASE), {"approved": APPROVED, "rejected": REJECTED}),
    Kind("gc", (BRANCHES, GC), {"approved": APPROVED, "rejected": REJECTED}),
    Kind("reply", (SCRIPTED, GENERATE), {"approved": APPROVED, "rejected": REJECTED}),
    Kind(
        "tool result",
        (TOOL_RESULT,),
        {
            "approved": APPROVED,
            "changed": (("edit_result", {"content": "some ducks"}), *APPROVED),
            "rejected": REJECTED,
        },
    ),
    Kind(
        "policy",
        (POLICY,),
        {
            "approved": APPROVED,
            "changed": changed(priority="important"),
            "rejected": REJECTED,
            "expired": EXPIRED,
        },
    ),
    Kind(
        "orchestrator",
        (NO_USER, SCRIPTED, CONVERSATION, ORCHESTRATE),
        {"approved": APPROVED, "changed": changed(content="7 ducks."), "rejected": REJECTED},
    ),
)
