"""The descriptions of the built-in tools for agents.

`SELF` is for an agent that manages the context it works with itself, `SUPERVISOR` for one that manages the context of
another agent; a tool that a profile lacks has no text there. For everybody else, people included, a tool is described
by the docstring of its function.
"""

from __future__ import annotations

from typing import Final

SELF: Final = {
    "commit": (
        "Write down or save something in your own context that you will need later: a note, a decision, a fact, a "
        "plan. With operation 'edit', correct what an earlier message says, in its place. Not to mark one that is "
        "there: tag or annotate."
    ),
    "compile": (
        "Read the whole text of your context again, exactly as it is sent to you now. Not to see how long it is or "
        "what came last: status and log cost less."
    ),
    "annotate": (
        "Say how much a message of your context matters: pin what must never be lost or summarized, such as the task "
        "and its rules; skip what is no longer needed, and it stays in the history only. Not to find it again: tag."
    ),
    "status": (
        "See how full your context is: tokens in use, what is left of the budget, and the branch you are on. Not for "
        "what is in it: log."
    ),
    "log": (
        "List the latest entries, those added last to your context, with the hashes that other tools take. Not for "
        "their whole text: compile."
    ),
    "compress": (
        "Free space when your context runs out of tokens: summarize old messages, that is, replace them by a summary, "
        "best one that you write yourself. Keep facts, decisions and open questions; pinned ones stay word for word. "
        "Not for one message: annotate it with skip."
    ),
    "branch": (
        "Make a new branch of your context, to try an experiment without touching what you have; if it leads nowhere, "
        "switch back. Not for one that exists: switch."
    ),
    "switch": (
        "Change over to another branch of your context that exists, and continue there. Not for a new one: branch."
    ),
    "reset": (
        "Undo: go back to an earlier commit of your context after a wrong turn, and throw away what came after it. "
        "Write down first what you learned; ORIG_HEAD names where you were. Not for one message: annotate it with "
        "skip."
    ),
    "tag": (
        "Put a tag on a message of your context, a label such as decision, to find it again. Not to keep it from "
        "being compressed: annotate."
    ),
    "untag": (
        "Take a tag, a label, off a message of your context: remove it again. Tags that it was made with stay. Not to "
        "be rid of the message: annotate it with skip."
    ),
    "query_by_tags": (
        "Find every message of your context that is labelled with certain tags. Not for the tags of one message: "
        "get_tags."
    ),
    "register_tag": (
        "Explain what one of your tags is meant for: write the description of a label, so that you use it in one "
        "sense. Not to put it on a message: tag."
    ),
    "get_tags": (
        "See which tags, or labels, one message of your context has. Not to find messages by their tags: "
        "query_by_tags."
    ),
    "list_tags": (
        "See which tags exist in your context, what they mean, and how often each is used. Not for one message: "
        "get_tags."
    ),
    "configure_model": (
        "Use another model, such as a cheaper one, or another temperature, for one kind of your own work: replies, "
        "summaries. Not for one request alone: it holds from now on."
    ),
    "notebook_execute": (
        "Run Python code: a script that loops, computes and prints, and calls tools as tools.NAME(...); what they "
        "give back stays out of your context. The sandbox runs it at once; the kernel, which has files and packages, "
        "after a person approved it. Not for one call: call the tool."
    ),
    "notebook_create": (
        "Make another script notebook, by a name, with variables of its own, for another task of yours. Not for the "
        "first one: notebook_execute has it."
    ),
    "notebook_variables": (
        "See which variables are defined in a script notebook after your scripts, with their types. Not for what they "
        "hold: print it in notebook_execute."
    ),
    "notebook_reset": (
        "Clear all variables of a script notebook, so that your scripts start afresh. Not to take your context back: "
        "reset."
    ),
    "notebook_list": (
        "List which script notebooks of yours there are, and how many variables each has. Not for what is in one: "
        "notebook_variables."
    ),
}
"""For an agent that manages the context it works with itself."""

SUPERVISOR: Final = {
    "commit": (
        "Give the managed agent an instruction or a message, which it will read in its next turn; with operation "
        "'edit', correct one in its place. Not to copy what is on another branch: cherry_pick."
    ),
    "compile": (
        "Read everything that the managed agent's model will be sent, message by message. Not to see how full it is "
        "or what came last: status and log cost less."
    ),
    "annotate": (
        "Decide what the managed agent keeps in view: pin what must never be lost or summarized, such as its task; "
        "skip what misleads it or is done with. Not to find it again: tag."
    ),
    "status": (
        "See how full the managed agent's context is: tokens in use of its budget, and the branch it is on. A good "
        "first call. Not for its children: child_status."
    ),
    "log": (
        "List the latest commits of the managed agent, with the hashes that other tools take. Not for their text: "
        "get_commit for one, compile for all."
    ),
    "diff": (
        "Compare two commits of the managed agent: show what changed between them. Not for one commit alone: "
        "get_commit."
    ),
    "compress": (
        "Free tokens when the managed agent's context is nearly full: replace old messages by a summary. Pin or "
        "preserve its instructions and decisions first. Not for one message: annotate it with skip."
    ),
    "branch": (
        "Create a new branch of the managed agent's work, to keep its state under a name or have it go on elsewhere. "
        "Not for one that exists: switch."
    ),
    "switch": "Make the managed agent continue on another branch that exists. Not for a new one: branch.",
    "merge": (
        "Combine: bring what the agent found out on another branch into the present one, all of it. Not for single "
        "messages: cherry_pick."
    ),
    "merge_into": (
        "Take the present branch, or another one that the managed agent has finished, over into a third such as main; "
        "it stays where it is. Not into its current branch: merge."
    ),
    "rebase": (
        "Replay the commits of the managed agent's branch on top of the newest of another one. They are copied anew. "
        "Not for a branch that others work on: merge."
    ),
    "archive": (
        "Put a finished branch of the managed agent away under another name; what is in it is kept. Not to delete for "
        "good: gc."
    ),
    "cherry_pick": (
        "Copy just one commit, or a few, from another branch of the managed agent to its present one. Not for a whole "
        "branch: merge."
    ),
    "child_status": (
        "See how the managed agent's own children, its subagents, are doing: task, progress, branch, commits and "
        "tokens of each. Not for the agent itself: status."
    ),
    "register_policy": (
        "Add an automatic rule, a policy: from now on it watches the managed agent's context, and proposes to "
        "compress, pin, merge, ... when it is time. Not for what is due now: use the tool itself."
    ),
    "unregister_policy": (
        "Delete a policy, an automatic rule, from the managed agent's context for good. Not for a moment: "
        "toggle_policy."
    ),
    "toggle_policy": (
        "Switch a policy of the managed agent's context off for a moment, or on again, with its settings kept. Not "
        "for good: unregister_policy."
    ),
    "reset": (
        "Undo: move the managed agent's branch back to an earlier commit, after it went astray. Later messages leave "
        "its context; ORIG_HEAD names where it was. Not for a mere look: checkout."
    ),
    "checkout": (
        "Look at the managed agent's state as it was at an earlier commit, without a branch. Nothing can be committed "
        "there: switch back afterwards. Not to undo: reset."
    ),
    "gc": (
        "Delete commits for good that none of the managed agent's branches can reach, to free disk space. Try it with "
        "dry_run first: nothing brings them back. Not for a branch: archive."
    ),
    "list_branches": (
        "List which branches the managed agent has, and which it works on. Not for what is on them: log."
    ),
    "get_commit": "Read the full text of a single commit of the managed agent. Not for many: compile.",
    "tag": (
        "Label a commit of the managed agent with a tag, to find it again. Not to keep it from being compressed: "
        "annotate."
    ),
    "untag": (
        "Remove a tag, a label, from a commit of the managed agent. Tags that it was made with stay. Not to be rid of "
        "the commit: annotate it with skip."
    ),
    "query_by_tags": (
        "Find all commits of the managed agent that are labelled with certain tags. Not for the tags of one commit: "
        "get_tags."
    ),
    "register_tag": (
        "Write down what a tag is meant for, for yourself and the managed agent. Not to label a commit: tag."
    ),
    "get_tags": (
        "See which tags, or labels, one commit of the managed agent has. Not to find commits by them: query_by_tags."
    ),
    "list_tags": (
        "See which tags exist in the managed agent's context, what they mean, and how many commits each has. Not for "
        "one commit: get_tags."
    ),
    "configure_model": (
        "Let the managed agent use another model, such as a cheaper one, or another temperature, for one kind of "
        "work: replies, summaries. Not for one request alone: it holds from now on."
    ),
    "propose_operation": (
        "Write a new operation, which the managed agent can fire too: fields, and actions in Python to decide. A "
        "person reviews it first, unless autonomy is 'autonomous' and all actions of a new one declare 'sandbox'. Not "
        "for code to run once: notebook_execute."
    ),
    "notebook_execute": (
        "Run Python code: a script that looks through the agent's context, counts, filters and prints, and calls "
        "tools as tools.NAME(...). The sandbox runs it at once; the kernel after a person approved it. Not for one "
        "call: call the tool."
    ),
    "notebook_create": (
        "Make another script notebook, by a name, such as one for each agent that you look after. Not for the first "
        "one: notebook_execute has it."
    ),
    "notebook_variables": (
        "List which variables are defined in a script notebook after a script, not in the agent's context. Not for "
        "what they hold: print it in notebook_execute."
    ),
    "notebook_reset": (
        "Clear all variables of a script notebook; the agent's context stays as it is. Not to take the agent back: "
        "reset."
    ),
    "notebook_list": (
        "List which script notebooks there are, the agent's own among them. Not for what is in one: "
        "notebook_variables."
    ),
}
"""For an agent that manages the context of another agent."""

UNREVIEWED: Final = "(A model wrote this; no person has reviewed it.)"
"""Follows the description of an unreviewed operation."""
