"""The descriptions of the built-in tools for agents.

`SELF` is for an agent that manages its own context. `SUPERVISOR` is for an agent that manages the context of another
agent. Each has texts only for the tools of its profile. In all other cases, including the user's calls, the
description is the docstring of the tool's function.
"""

from __future__ import annotations

from typing import Final

SELF: Final = {
    "commit": (
        "Write down or save something in your context that you will need later: a note, a decision, a fact, a "
        "plan. With operation 'edit', correct an earlier message in its place. Not to mark an existing message: "
        "tag or annotate."
    ),
    "compile": (
        "Read the whole text of your context again, exactly as it is sent to you now. Not for its size or the "
        "newest entries: status and log cost less."
    ),
    "annotate": (
        "Say how much a message of your context matters. Pin it if it must never be lost or summarized, such as "
        "the task and its rules. Skip it if no longer needed; the history keeps it. Not to find it again: tag."
    ),
    "status": (
        "See how full your context is: tokens in use, tokens left in the budget, and your branch. Not for the "
        "contents: log."
    ),
    "log": (
        "List the latest entries, added last to your context, with the hashes that other tools take. Not for "
        "their full text: compile."
    ),
    "compress": (
        "Free space when your context runs out of tokens: summarize old messages, that is, replace them by a "
        "summary, preferably your own. Keep facts, decisions and open questions; pinned messages stay word for "
        "word. Not for one message: annotate it with skip."
    ),
    "branch": (
        "Make a new branch of your context, to try an experiment without changing the current state. If it fails, "
        "switch back. Not for an existing branch: switch."
    ),
    "switch": (
        "Change to another existing branch of your context, and continue there. Not for a new branch: branch."
    ),
    "reset": (
        "Undo: go back to an earlier commit of your context after a wrong turn, and discard everything after it. "
        "First write down your findings; ORIG_HEAD names the old position. Not for one message: annotate it with "
        "skip."
    ),
    "tag": (
        "Put a tag on a message of your context, a label such as decision, to find it again. Not to protect it "
        "from compression: annotate."
    ),
    "untag": (
        "Take a tag, a label, off a message of your context: remove it. Tags from its creation stay. Not to drop "
        "the message: annotate it with skip."
    ),
    "query_by_tags": (
        "Find every message of your context that has certain tags or labels. Not for the tags of one message: "
        "get_tags."
    ),
    "register_tag": (
        "Explain what your tag, a label, is meant for: write its description, to use it in one sense. Not to put "
        "it on a message: tag."
    ),
    "get_tags": (
        "See the tags, or labels, of one message of your context. Not to find messages by their tags: "
        "query_by_tags."
    ),
    "list_tags": (
        "See all tags in your context, their meanings, and how often each is used. Not for one message: get_tags."
    ),
    "configure_model": (
        "Use another model, such as a cheaper one, or another temperature, for one kind of your work: replies, "
        "summaries. Not for one request alone: it applies from now on."
    ),
    "notebook_execute": (
        "Run Python code: a script that loops, computes, prints, and calls tools as tools.NAME(...). Their "
        "results stay out of your context. The sandbox runs it at once; the kernel, which has files and packages, "
        "after the user approves it. Not for one call: call the tool."
    ),
    "notebook_create": (
        "Make another script notebook, by name, with separate variables, for another task of yours. Not for the "
        "first one: notebook_execute has it."
    ),
    "notebook_variables": (
        "See which variables are defined in a script notebook after your scripts, with their types. Not for their "
        "values: print them in notebook_execute."
    ),
    "notebook_reset": (
        "Clear all variables of a script notebook, to start your scripts afresh. Not to undo context changes: "
        "reset."
    ),
    "notebook_list": (
        "List which script notebooks of yours there are, and how many variables each has. Not for their contents: "
        "notebook_variables."
    ),
}
"""For an agent that manages its own context."""

SUPERVISOR: Final = {
    "commit": (
        "Give the managed agent an instruction or a message, which it reads in its next turn. With operation "
        "'edit', correct one in its place. Not to copy one from another branch: cherry_pick."
    ),
    "compile": (
        "Read everything that the managed agent's model will receive, message by message. Not for its size or the "
        "newest entries: status and log cost less."
    ),
    "annotate": (
        "Say how much a message of the managed agent matters: pin it if it must never be lost or summarized, like "
        "the task; skip it if misleading or done. Not to find it: tag."
    ),
    "status": (
        "See how full the managed agent's context is: used tokens, its budget, and its branch. A good first call. "
        "Not for its children: child_status."
    ),
    "log": (
        "List the latest commits of the managed agent, with the hashes that other tools take. Not for their text: "
        "get_commit for one, compile for all."
    ),
    "diff": (
        "Compare two commits of the managed agent: show the changes between them. Not for one commit alone: "
        "get_commit."
    ),
    "compress": (
        "Free tokens when the managed agent's context is nearly full: replace old messages by a summary. Pin or "
        "preserve its instructions and decisions first. Not for one message: annotate it with skip."
    ),
    "branch": (
        "Create a new branch of the managed agent's work, to keep its state under a name or continue elsewhere. "
        "Not for an existing branch: switch."
    ),
    "switch": "Make the managed agent continue on another existing branch. Not for a new branch: branch.",
    "merge": (
        "Combine: bring all of the agent's work on another branch into the current one. Not for single messages: "
        "cherry_pick."
    ),
    "merge_into": (
        "Bring the current branch, or another one that the managed agent has finished, into a third such as main, "
        "without a switch. Not into its current branch: merge."
    ),
    "rebase": (
        "Replay the commits of the managed agent's branch on top of another branch. This makes new commits. Not "
        "for a branch that others work on: merge."
    ),
    "archive": (
        "Put a finished branch of the managed agent away under another name; its contents stay. Not to delete for "
        "good: gc."
    ),
    "cherry_pick": (
        "Copy just one commit, or a few, from another branch of the managed agent to its current one. Not for a "
        "whole branch: merge."
    ),
    "child_status": (
        "See how the managed agent's own children, its subagents, are doing: task, progress, branch, commits and "
        "tokens of each. Not for the agent itself: status."
    ),
    "register_policy": (
        "Add an automatic rule, a policy: from now on it watches the managed agent's context, and proposes to "
        "compress, pin, merge, ... at the right time. Not to act now: use the tool itself."
    ),
    "unregister_policy": (
        "Delete a policy, an automatic rule, from the managed agent's context for good. Not for a pause: "
        "toggle_policy."
    ),
    "toggle_policy": (
        "Switch a policy of the managed agent's context off for a while, or on again. Its settings stay. Not for "
        "good: unregister_policy."
    ),
    "reset": (
        "Undo: move the managed agent's branch back to an earlier commit, after a wrong turn. Later messages "
        "leave its context; ORIG_HEAD names the old position. Not to look only: checkout."
    ),
    "checkout": (
        "Look at the managed agent's state at an earlier commit, without a branch. Commits are not possible "
        "there: switch back afterwards. Not to undo: reset."
    ),
    "gc": (
        "Delete commits for good that none of the managed agent's branches can reach, to free disk space. Try "
        "dry_run first: nothing brings them back. Not for a branch: archive."
    ),
    "list_branches": (
        "List which branches the managed agent has, and the current one. Not for their contents: log."
    ),
    "get_commit": "Read the full text of a single commit of the managed agent. Not for many: compile.",
    "tag": (
        "Label a commit of the managed agent with a tag, to find it again. Not to protect it from compression: "
        "annotate."
    ),
    "untag": (
        "Remove a tag, a label, from a commit of the managed agent. Tags from its creation stay. Not to drop the "
        "commit: annotate it with skip."
    ),
    "query_by_tags": (
        "Find all commits of the managed agent that have certain tags or labels. Not for the tags of one commit: "
        "get_tags."
    ),
    "query_by_text": (
        "Find all commits of the managed agent whose text contains a word or phrase. Not for tags: query_by_tags."
    ),
    "register_tag": (
        "Write down the meaning of a tag, for yourself and the managed agent. Not to label a commit: tag."
    ),
    "get_tags": (
        "See which tags, or labels, one commit of the managed agent has. Not to find commits by tags: "
        "query_by_tags."
    ),
    "list_tags": (
        "See all tags in the managed agent's context, their meanings, and how many commits each has. Not for one "
        "commit: get_tags."
    ),
    "configure_model": (
        "Let the managed agent use another model, such as a cheaper one, or another temperature, for one kind of "
        "work: replies, summaries. Not for one request: it applies from now on."
    ),
    "propose_operation": (
        "Write a new operation: fields, and Python actions that decide. The managed agent can also fire it. The "
        "user reviews it first, unless autonomy is 'autonomous' and all actions of a new one declare 'sandbox'. "
        "Not for code to run once: notebook_execute."
    ),
    "notebook_execute": (
        "Run Python code: a script that looks through the agent's context, counts, filters, prints, and calls "
        "tools as tools.NAME(...). The sandbox runs it at once; the kernel after the user approves it. Not for "
        "one call: call the tool."
    ),
    "notebook_create": (
        "Make another script notebook, by name, such as one for each agent that you manage. Not for the first "
        "one: notebook_execute has it."
    ),
    "notebook_variables": (
        "List which variables are defined in a script notebook after a script, not in the agent's context. Not "
        "for their values: print them in notebook_execute."
    ),
    "notebook_reset": (
        "Clear all variables of a script notebook; the agent's context stays. Not to undo context changes: reset."
    ),
    "notebook_list": (
        "List which script notebooks there are, including the agent's own. Not for their contents: "
        "notebook_variables."
    ),
}
"""For an agent that manages the context of another agent."""

UNREVIEWED: Final = "(A model wrote this. No user has reviewed it.)"
"""Follows the description of an unreviewed operation."""
