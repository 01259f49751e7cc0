"""Files that are whole or absent: written under another name, then renamed."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; rename it to `path` on success, delete it on failure.

    Parent folders are created. What stood at `path` stays until the rename. Errors name `path`.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{uuid4().hex[:8]}.partial")
    try:
        yield partial
        partial.replace(path)
    except OSError as error:
        if error.filename in {str(partial), partial}:
            error.filename, error.filename2 = str(path), None
        raise
    finally:
        partial.unlink(missing_ok=True)
