"""Asking a person, and carrying out what was decided: once, exactly that, and on record.

* What is shown: `request`, `request_text`, `display` (an approval binds to what was on display).
* Who is asked, and how: `reviewer`, `channel` (the protocol of a way to reach a person), `prompt`,
  `dispatch`.
* What was decided: `decision`, `gate` (every decision goes through it), `ledger` (the rows: asked, decided,
  begun, ended), `records`.
* What decides without asking: `grants` (standing approvals), `lock` and `recorded` (for runs in which nobody
  can be asked).
* What this user has approved: `trust`.

Knows what is decided only as the protocol `channel.Reviewable`. Knows `storage`, `models`, and of `analysis`
its findings.
"""
