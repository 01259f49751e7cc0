"""One sweep a folder at a time: a second one there would overwrite the first one's table and chart."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sim.errors import ScenarioError


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a file, made if it is not there; the system lets go of it however this process ends.

    Raises ScenarioError if another process holds it, or it cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("ab")
    except OSError as error:
        raise ScenarioError(f"{path}: cannot be written: {error.strerror}") from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ScenarioError(f"{path.parent}: another sweep is writing there; give another --out") from None
        yield
