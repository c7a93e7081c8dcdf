"""Mistakes whose error messages are frozen: each line is run on the same tract, and has to raise."""

SETUP = """\
import asyncio
from tract_jupyter import *
from tract_jupyter.agents import AgentDefinition, parse_file
from tract_jupyter.models import TokenBudget, Allowance
from tract_jupyter.operations import spec_from_dict
from tract_jupyter.toolkit import ToolDefinition
go = ActionDef("go", "Go.", {"speed": "int"}, "pending.approve()\\nreturn speed", ["speed"])
fails = ActionDef("fails", "Fail.", {}, "raise ValueError('no fuel')")
def spec(**changes):
    parts = {"name": "drive", "description": "Drive.", "fields": {"to": {"type": "str", "required": True}}, "actions": {"go": go, "fails": fails}}
    return OperationSpec(**{**parts, **changes})
def action(code="pending.approve()", **params):
    return ActionDef("go", "Go.", params, code)
t.register_operation(spec())
first = t.user("first")
second = t.assistant("second")
t.branch("side")
t.user("third")
t.switch("main")
"""

MISTAKES = """\
# messages and commits
t.user(5)
t.user("x", priority="high")
t.user("x", edit="nothing")
t.user("x", edit="abc")
t.system("x", metadata={"a": object()})
t.commit({"content_type": "dialog", "text": "x"})
t.commit({"content_type": "dialogue", "role": "robot", "text": "x"})
t.commit({"role": "user"})
t.commit("x", operation="add")
t.annotate(first.commit_hash, "loud")
t.annotate("nothing", "skip")
t.get_commit("nothing")
t.compile(at_commit="nothing")
t.log("5")

# branches and tags
t.branch("side")
t.branch("a b")
t.branch("")
t.branch("-x")
t.switch("nowhere")
t.delete_branch("main")
t.delete_branch("nowhere")
t.delete_branch("side")
t.checkout("nothing")
t.reset("nothing")
t.tags.add("nothing", "t")

# history
t.merge("nowhere")
t.merge("main")
t.merge("side", strategy="best")
t.rebase("nowhere")
t.compress(target_tokens=0)
t.compress(content="")
t.compress()
t.compress(from_commit="nothing", content="x")
t.gc(orphan_retention_days=-1)
t.redo()
t.propose_merge("nowhere")
t.propose_compress(content="x", target_tokens=-5)

# operations
t.register_operation(spec(name="two words"))
t.register_operation(spec(name="class"))
t.register_operation(spec(name="compress"))
t.register_operation(spec(name="odd", fields={"to": {"type": "strin"}}))
t.register_operation(spec(name="odd", fields={"to": {"type": "int", "default": "x"}}))
t.register_operation(spec(name="odd", fields={"to": {"typ": "int"}}))
t.register_operation(spec(name="odd", actions={"go": action("if")}))
t.register_operation(spec(name="odd", actions={"go": action(n="number")}))
t.register_operation(spec(name="odd", unhandled="run"))
spec_from_dict({"name": "x", "description": "", "fields": {}, "actions": {}, "extra": 1})
t.fire("driv", {"to": "x"})
t.fire("drive")
t.fire("drive", {"to": 5})
t.fire("drive", {"to": "x", "too": 1})
t.fire("drive", {"to": "x"}, review=True).go()
t.fire("drive", {"to": "x"}, review=True).execute_tool("go", {"speed": "fast"})
t.fire("drive", {"to": "x"}, review=True).execute_tool("stop", {})
t.fire("drive", {"to": "x"}, review=True).fails()
t.fire("drive", {"to": "x"}).approve()
t.fire("drive", {"to": "x"}, review=True).approve(edits={"to": 5})
t.fire("drive", {"to": "x"}, review=True).reject(5)
t.hooks.save_handler("driv", "no", "pending.reject()")
t.hooks.save_handler("drive", "no", "if")
t.hooks.save_handler("drive", "two words", "pass")
t.on("driv", lambda pending: None)
t.on("drive", "no function")

# tools
t.tools.comit(content={})
t.tools.commit()
t.tools.commit(content={"content_type": "dialog"})
t.tools.log(limit="x")
t.toolset(profile="everything")
t.tool(5)
t.tool(lambda x: x)
t.mcp.add("two words", ["x"])
t.mcp.add("files", [])
t.mcp.remove("files")
t.scripts.run("if")
t.scripts.run("1", backend="cloud")
t.scripts.run("1", notebook_id="a b")

# models
t.chat("Hello")
t.generate()
t.models.use("gpt")
t.models.use("nobody/gpt-6-luna")
t.models.use(OpenAIClient("gpt-6-luna", base_url="ftp://x"))
t.costs.set_budget(usd=-1)
t.costs.set_budget(tokens="many")
OpenAIClient("gpt-6-luna", timeout=-1)
OpenAIClient("gpt-6-luna", headers={"a": 5})
TokenBudget(0)
TokenBudget(10, action="explode")

# agents, policies and profiles
t.agents.create("two words", "Count.", "Counts")
t.agents.create("counter", "", "Counts")
t.agents.create("counter", "Count.", "Counts", tools=["comit"])
t.agents.get("counter")
t.agents.call("counter", "go")
t.agents.adopt("missing.agent")
t.agents.promote("counter", "x.txt")
parse_file("no front matter")
parse_file("---\\nname: x\\ncolor: red\\n---\\nWork.")
AgentDefinition("x", "Work.", budget=Allowance(steps=0))
Allowance(steps=-1)
t.policies.add(5)
t.policies.on("nothing")
t.policies.remove("nothing")
t.policies.propose("tidy", "anotate", {})
t.policies.propose("tidy", "annotate", {"target": "HEAD"})
t.autonomy.ceiling = "total"
t.profiles.get("nothing")
t.profiles.activate("nothing")
t.runs.get("nothing")
t.runs.resume("nothing")
t.orchestrator.resume()
Orchestrator(t, OrchestratorConfig(max_steps=0))
OrchestratorConfig(autonomy_ceiling="total")

# stores, review and the rest
Tract.open("/dev/null/x.db")
Tract.open(url="mysql://x")
Tract.open(tract_id="two words", url="sqlite://")
t.session.get_tract("nothing")
t.review.grants.revoke("nothing")
t.workspace.read("/etc/passwd")
t.workspace.read("missing.txt")
t.cassette.replay("missing.json")
CodeAnalyzer(off=["TJ000"])
CodeAnalyzer(levels={"TJ101": "huge"})
"""
