"""Parsing in several threads and processes."""

from __future__ import annotations

import ast
import os
import signal
import threading
import warnings

from tract_jupyter.analysis import parse


def test_a_fork_while_another_thread_parses_can_parse(monkeypatch):
    is_parsing, may_end = threading.Event(), threading.Event()
    original = ast.parse

    def slow(*arguments, **options):
        if threading.current_thread() is thread:
            is_parsing.set()
            may_end.wait(10)
        return original(*arguments, **options)

    thread = threading.Thread(target=parse, args=("1",))
    monkeypatch.setattr(ast, "parse", slow)
    thread.start()
    is_parsing.wait(10)
    threading.Timer(0.2, may_end.set).start()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        signal.alarm(5)
        parse("2")
        os._exit(0)
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
