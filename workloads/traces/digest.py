"""The digest of a trace, by which a later pass knows that it reads what the first one read."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

from workloads.errors import WorkloadError


def trace_digest(files: Sequence[Path]) -> str:
    """Return the SHA-256 of a file, or of several files' digests in order; a folder counts as the files in it.

    Raises WorkloadError if one cannot be read or is no file.
    """
    digests = [_path_digest(path) for path in files]
    return digests[0] if len(digests) == 1 else hashlib.sha256(" ".join(digests).encode()).hexdigest()


def _path_digest(path: Path) -> str:
    try:
        if path.is_dir():  # formats of which a whole folder is one trace
            files = sorted(one for one in path.rglob("*") if one.is_file())
            return trace_digest(files)
        if not path.is_file():  # a pipe or a device might never end
            raise WorkloadError(f"{path}: is no regular file")
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise WorkloadError(f"{path}: {error.strerror}") from None
