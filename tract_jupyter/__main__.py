"""The command line: `tract-jupyter COMMAND ...`, or `python -m tract_jupyter COMMAND ...`."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(words: Sequence[str] | None = None) -> int:
    """Run a command.

    Returns:
        The exit code: 0, or 1 if something would be refused or is damaged, or 2 if the command failed.
    """
    options = _parser().parse_args(words)
    from tract_jupyter import TractError
    from tract_jupyter.models import printable

    try:
        code = int(options.run(options))
        sys.stdout.flush()
    except TractError as error:
        print(printable(f"tract-jupyter: {error}"), file=sys.stderr)  # noqa: T201 # a command prints
        return 2
    except BrokenPipeError:  # the reader has enough, such as `head`; at exit, Python would flush again
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return code


def _verify(options: argparse.Namespace) -> int:
    from tract_jupyter import verify
    from tract_jupyter.models import observing
    from tract_jupyter.notebook import ProgressBars, is_store, on_terminal

    with observing(ProgressBars(on_terminal)):
        if is_store(options.path):
            return _verify_store(options.path)
        refusals = verify(options.path)
    for refusal in refusals:
        print(refusal)  # noqa: T201 # as above
    if any(refusal.kind == "refused" for refusal in refusals):
        print("Decide these requests in a live notebook, then run '%tract record' there.")  # noqa: T201 # as above
    return int(any(refusal.kind in {"refused", "error"} for refusal in refusals))


def _verify_store(path: str) -> int:
    from tract_jupyter import verify_store
    from tract_jupyter.models import printable

    tracts = verify_store(path)
    for tract in tracts:
        for run in tract.runs:
            print(f"{tract.tract_id}: run {run.run_id} {run.status} {run.root_hash or '-'}")  # noqa: T201 # as above
        for line in tract.unsigned:
            print(f"{tract.tract_id}: not yours: {printable(line)}")  # noqa: T201 # as above
        for damage in tract.damaged:
            print(f"{tract.tract_id}: {damage.where}: {damage.problem}")  # noqa: T201 # as above
    return int(any(tract.damaged for tract in tracts))


def _serve(options: argparse.Namespace) -> int:
    from tract_jupyter import Tract, mcp_server
    from tract_jupyter.notebook import existing_store, place_of

    existing_store(options.store).close()
    with Tract.open(**place_of(options.store), tract_id=options.tract_id) as tract:
        mcp_server(tract, options.profile, decision_timeout=options.decision_timeout).run()
    return 0


def _proxy(options: argparse.Namespace) -> int:
    from tract_jupyter.toolkit import kernel_proxy

    kernel_proxy(options.notebook).run()
    return 0


def _doctor(options: argparse.Namespace) -> int:
    from tract_jupyter.notebook import DoctorView, check_machine

    view = DoctorView(tuple(check_machine(options.store)))
    print(view.to_text())  # noqa: T201 # as above
    return int(view.failed > 0)


def _export(options: argparse.Namespace) -> int:
    from tract_jupyter.exceptions import StoreError
    from tract_jupyter.notebook import export_audit, write_audit

    try:
        if options.out is None:
            lines, sha256 = export_audit(options.store, sys.stdout)
            sys.stdout.flush()
        else:
            lines, sha256 = write_audit(options.store, options.out)
    except OSError as error:
        raise StoreError(
            f"the export cannot be written to the standard output: {error.strerror}. Give a file with --out"
        ) from None
    print(f"{lines} lines, SHA-256 {sha256}. Keep this number apart from the file.", file=sys.stderr)  # noqa: T201 # as above
    return 0


def _verify_export(options: argparse.Namespace) -> int:
    from tract_jupyter.models import printable
    from tract_jupyter.notebook import report_lines, verify_audit

    report = verify_audit(options.file, options.secret)
    print(printable("\n".join(report_lines(report))))  # noqa: T201 # as above
    return int(bool(report.problems))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "tract-jupyter", description="Operations that the user reviews, in notebooks."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    _add_verify(commands)
    _add_mcp_server(commands)
    _add_kernel_proxy(commands)
    _add_doctor(commands)
    _add_audit(commands)
    return parser


def _add_audit(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    audit = commands.add_parser("audit", help="export a store for an audit, or verify an export")
    parts = audit.add_subparsers(dest="part", required=True)
    export = parts.add_parser(
        "export",
        help="write all rows of a store as JSON Lines",
        description="Write all rows of a store as JSON Lines: commits with their texts, requests, decisions, effects, "
        "signatures. Nothing is changed. The SHA-256 of the file appears on stderr.",
    )
    export.add_argument("store", help="the SQLite file, or an SQLAlchemy URL")
    export.add_argument("--out", metavar="FILE", help="the new file (default: stdout)")
    export.set_defaults(run=_export)
    verify = parts.add_parser(
        "verify",
        help="verify an export without its store",
        description="Recompute the digest, each hash and each link of an export. Exit code 1 if a check fails, 2 if "
        "the file is not a whole export.",
    )
    verify.add_argument("file", help="the export")
    verify.add_argument("--secret", metavar="FILE", help="the user's signing secret, to check the signatures")
    verify.set_defaults(run=_verify_export)


def _add_verify(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    verify = commands.add_parser(
        "verify",
        help="run notebooks headless and list the refused requests, or list the damage of a store",
        description="Run notebooks as nbclient, papermill or CI do, and list each request that is refused there, with "
        "its cell and line. The code of the cells REALLY RUNS, in the notebook's folder: it uses your files, the "
        "network and models. Only the notebook and its store are temporary copies. The run ends at the first error. "
        "For a store, nothing is run: it lists damage, records without your signature, and a root hash for each run. "
        "Exit code 1 if a request is refused, a cell fails or a store is damaged, 2 if the command itself fails.",
    )
    verify.add_argument(
        "path",
        help="a notebook, a folder of notebooks, or a store: its SQLite file (.db, .sqlite) or SQLAlchemy URL",
    )
    verify.set_defaults(run=_verify)


def _add_mcp_server(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    serve = commands.add_parser(
        "mcp-server",
        help="serve the tools of a store to an MCP client",
        description="Serve the tools of a store, and its approved operations, over stdin and stdout, with the Model "
        "Context Protocol. A call that needs approval waits in the inbox of the store: see '%tract inbox' in a "
        "notebook on this store.",
    )
    serve.add_argument("store", help="the SQLite file, such as .tract/report.db, or an SQLAlchemy URL")
    serve.add_argument("--tract-id", help="the id of the tract (default: the first tract of the store)")
    serve.add_argument(
        "--profile",
        default="self",
        help="the tools to serve: self, supervisor or full (default: %(default)s)",
    )
    serve.add_argument(
        "--decision-timeout",
        type=float,
        default=86_400.0,
        metavar="SECONDS",
        help="the time that a call waits for the user's decision (default: %(default)g, one day)",
    )
    serve.set_defaults(run=_serve)


def _add_kernel_proxy(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    proxy = commands.add_parser(
        "kernel-proxy",
        help="connect an MCP client to the kernel of a notebook",
        description="Forward an MCP client over stdin and stdout to the kernel of a notebook in which '%tract serve' "
        "ran. The user decides each call that needs approval in the notebook. The proxy finds the kernel again after a "
        "restart, once '%tract serve' ran there.",
    )
    proxy.add_argument(
        "notebook", nargs="?", default="", help="the notebook (default: the only one that serves)"
    )
    proxy.set_defaults(run=_proxy)


def _add_doctor(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    doctor = commands.add_parser(
        "doctor",
        help="check this installation, and a store",
        description="Check the versions, extras, token counts and signing secret, and the state of a store. Each "
        "failed check names its remedy. Nothing is changed or sent. '%tract doctor' in a notebook also checks the "
        "front end and the model. Exit code 1 if a check fails.",
    )
    doctor.add_argument("store", nargs="?", help="the SQLite file of a store, or an SQLAlchemy URL")
    doctor.set_defaults(run=_doctor)


if __name__ == "__main__":
    sys.exit(main())
