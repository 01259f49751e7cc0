"""Lines of a text file, plain, gzip or zip, one at a time: however large the file, one line is in memory.

A line longer than `MOST_LINE_BYTES`, bytes that are no text, and an archive that unpacks to far more than any text
would are refused with the place where they were met.
"""

import gzip
import io
import stat
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from workloads.errors import WorkloadError

MOST_LINE_BYTES = 256 * 2**20  # a session of half a million tokens and hundreds of requests has some 50 MB
MOST_DOCUMENT_BYTES = 512 * 2**20  # of a file that is one value
MOST_RATIO = 200  # text packs 3 to 30 fold
_MOST_BLANK = 100_000  # lines in a row
_RATIO_FROM_BYTES = 64 * 2**20  # smaller files may be as repetitive as they like
_CHUNK = 2**20
_PACKED = {b"BZh": "bzip2", b"\xfd7zX": "xz", b"\x28\xb5\x2f\xfd": "zstd"}


class _Guarded(io.RawIOBase):
    """Counts what comes out of an archive against what went in."""

    def __init__(self, path: Path, unpacked: BinaryIO) -> None:
        self._path, self._unpacked = path, unpacked
        self._packed_bytes = max(path.stat().st_size, 1)
        self._read_bytes = 0

    def readable(self) -> bool:
        return True

    def readinto(self, into: "bytearray | memoryview") -> int:  # type: ignore[override]  # any buffer
        try:
            piece = self._unpacked.read(len(into))
        except (OSError, EOFError, zlib.error, zipfile.BadZipFile, RuntimeError, NotImplementedError) as error:
            raise WorkloadError(f"{self._path}: cannot be unpacked after {self._read_bytes:,} bytes: {error}") from None
        into[: len(piece)] = piece
        self._read_bytes += len(piece)
        if self._read_bytes > max(_RATIO_FROM_BYTES, MOST_RATIO * self._packed_bytes):
            ratio = self._read_bytes / self._packed_bytes
            raise WorkloadError(f"{self._path}: unpacks to more than {ratio:.0f} times its size, as no trace does")
        return len(piece)


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """Open a file for reading, unpacked if it is gzip or a zip of one file.

    Raises WorkloadError if it cannot be read or is no file.
    """
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # a named pipe would wait for ever
            raise WorkloadError(f"{path}: is no regular file")
        with path.open("rb") as file:
            magic = file.read(4)
            file.seek(0)
            if magic[:2] == b"\x1f\x8b":
                with gzip.open(file) as unpacked:
                    yield io.BufferedReader(_Guarded(path, unpacked), _CHUNK)  # type: ignore[arg-type]
            elif magic == b"PK\x03\x04":
                with zipfile.ZipFile(file) as archive, archive.open(_only_member(path, archive)) as member:
                    yield io.BufferedReader(_Guarded(path, member), _CHUNK)  # type: ignore[arg-type]
            elif packed := next((name for begin, name in _PACKED.items() if magic.startswith(begin)), None):
                raise WorkloadError(
                    f"{path}: is packed with {packed}: unpack it first; gzip and zip are read as they are"
                )
            else:
                yield file
    except OSError as error:
        raise WorkloadError(f"{path}: {error.strerror or error}") from None
    except zipfile.BadZipFile as error:
        raise WorkloadError(f"{path}: {error}") from None
    except RuntimeError as error:  # an encrypted member
        if isinstance(error, RecursionError):
            raise
        raise WorkloadError(f"{path}: {error}") from None


def _only_member(path: Path, archive: zipfile.ZipFile) -> zipfile.ZipInfo:
    members = [one for one in archive.infolist() if not one.is_dir()]
    if len(members) != 1:
        raise WorkloadError(f"{path}: a zip of {len(members)} files; one is expected")
    return members[0]


def byte_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield number, from 1, and bytes of each line that is not blank.

    Raises WorkloadError for a file that cannot be read, a line that is too long, NUL bytes, and endless blank lines.
    """
    with opened(path) as file:
        number = filled = 0
        while line := file.readline(MOST_LINE_BYTES + 1):
            number += 1
            if len(line) > MOST_LINE_BYTES:
                raise WorkloadError(f"{path}:{number}: a line of more than {MOST_LINE_BYTES // 2**20} MiB")
            if number == 1:
                line = line.removeprefix(b"\xef\xbb\xbf")
            if b"\0" in line:
                raise WorkloadError(f"{path}:{number}: this is no text but a binary file")
            if line.strip():
                filled = number
                yield number, line
            elif number - filled > _MOST_BLANK:
                raise WorkloadError(f"{path}:{number}: more than {_MOST_BLANK:,} blank lines in a row")


def document(path: Path, most_bytes: int = MOST_DOCUMENT_BYTES) -> bytes:
    """Return a whole file that is one value.

    Raises WorkloadError if it cannot be read, is larger than `most_bytes`, or is no text.
    """
    with opened(path) as file:
        pieces, left = [], most_bytes + 1
        while left > 0 and (piece := file.read(min(_CHUNK, left))):
            pieces.append(piece)
            left -= len(piece)
    if left <= 0:
        raise WorkloadError(f"{path}: more than {most_bytes // 2**20} MiB in one value")
    whole = b"".join(pieces).removeprefix(b"\xef\xbb\xbf")
    if b"\0" in whole:
        raise WorkloadError(f"{path}: this is no text but a binary file")
    return whole
