"""The command line: `tract-jupyter verify PATH`, or `python -m tract_jupyter verify PATH`."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(words: Sequence[str] | None = None) -> int:
    """Run a command.

    Args:
        words: its arguments; those of the process if left out.

    Returns:
        The exit code: 0, or 1 if something would be refused, or 2 if it could not be told.
    """
    given = _parser().parse_args(words)
    from tract_jupyter import TractError, verify

    try:
        found = verify(given.path, lock_file=given.lock_file)
    except TractError as error:
        print(f"tract-jupyter: {error}", file=sys.stderr)  # noqa: T201 # a command line's way to speak
        return 2
    for refusal in found:
        print(refusal)  # noqa: T201 # as above
    return int(any(refusal.kind == "refused" for refusal in found))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "tract-jupyter", description="Operations that a person reviews, in notebooks."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    verify = commands.add_parser(
        "verify",
        help="list what a run without a person would refuse",
        description="List what a run without a person (nbclient, papermill, CI) would refuse; nothing is run. "
        "Exit code 1 if it would refuse anything, 2 if that could not be told.",
    )
    verify.add_argument("path", help="a notebook, or a folder of notebooks")
    verify.add_argument(
        "--lock-file",
        default="tract.lock.json",
        help="the file of recorded decisions beside each (default: %(default)s)",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
