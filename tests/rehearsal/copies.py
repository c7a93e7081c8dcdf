"""A copy of a namespace for tests: a plain fork, without containment, that runs code and sends its effects."""

from __future__ import annotations

import json
import os
import random
import warnings

from tract_jupyter.rehearsal import Baseline, find_effects, observe


def frames_of(code, namespace):
    """Run code in a fork, and return the frames of its effects."""
    reading, writing = os.pipe()
    state = random.getstate()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        try:
            os.close(reading)
            random.setstate(state)  # a fork gets a new one
            collect = observe(code)(namespace)
            exec(code, namespace)
            with os.fdopen(writing, "wb") as file:
                for header, buffers in collect():
                    payload = b"".join(bytes(buffer) for buffer in buffers)
                    file.write(json.dumps([header, len(payload)]).encode() + b"\n" + payload)
        finally:
            os._exit(0)
    os.close(writing)
    frames = []
    with os.fdopen(reading, "rb") as file:
        while line := file.readline():
            header, size = json.loads(line)
            frames.append((header, file.read(size)))
    os.waitpid(pid, 0)
    return frames


def findings_of(code, namespace, workspace, upper=None):
    """Return the effects of code in a fork, and of an upper folder."""
    baseline = Baseline.take(code, namespace)
    folder = None if upper is None else os.open(upper, os.O_RDONLY | os.O_DIRECTORY)
    return find_effects(frames_of(code, namespace), baseline, workspace, upper=folder)
