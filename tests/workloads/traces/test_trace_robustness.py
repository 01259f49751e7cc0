"""Files that are no traces, or not whole ones: one clear line each, no hanging, little memory."""

import gzip
import json
import os
import tracemalloc
import zipfile
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from tests.trace_files import refusal_of, requests_of, write_rows
from workloads.errors import WorkloadError
from workloads.traces import text_lines
from workloads.traces.head import files_in, head_of
from workloads.traces.json_rows import abridged_value
from workloads.traces.open import open_trace
from workloads.traces.reading import ReadOptions


def call(number: int = 0, **more: Any) -> dict[str, Any]:
    """Return a Mooncake row; requests come a second apart."""
    row = {"timestamp": number * 1000, "input_length": 600, "output_length": 5, "hash_ids": [0, number + 1]}
    return {**row, **more}


def calls(path: Path, count: int = 5, **more: Any) -> Path:
    """Write a good trace."""
    return write_rows(path, (call(number, **more) for number in range(count)))


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ('{"timestamp": 2000, "input_length": 60', ":3: no JSON, or cut short: "),
        ("not json", ":3: no JSON, or cut short: "),
        ("[" * 100_000, ":3: expected object, got array"),
        ('{"more":' + "[" * 100_000, ":3: nested too deep"),
        ("[]", ":3: expected object, got array"),
        ("null", ":3: expected object, got null"),
        (call(2, timestamp=float("nan")), ":3: no JSON, or cut short: "),
        ('{"timestamp": 1e308, "input_length": 1, "output_length": 1}', ":3: timestamp: expected float <="),
        ('{"timestamp": 1e309, "input_length": 1, "output_length": 1}', ":3: timestamp: number out of range"),
        (call(2, timestamp=-1), ":3: timestamp: expected float >= 0.0"),
        (call(2, timestamp="2"), ":3: timestamp: expected float, got str"),
        (call(2, timestamp=None), ":3: timestamp: expected float, got null"),
        (call(2, timestamp=0), ":3: 0 s is before the 1 s above it: times must ascend"),
        (call(2, input_length=10**15), ":3: input_length: expected int <= 10000000"),
        (call(2, input_length=10**40), ":3: input_length: "),
        (call(2, input_length=True), ":3: input_length: expected int, got bool"),
        (call(2, output_length=-1), ":3: output_length: expected int >= 0"),
        (call(2, input_length=0), ":3: input_length: expected int >= 1"),
        (call(2, hash_ids=[1]), ":3: 1 hash_ids, where 600 tokens are 2 blocks of 512 tokens"),
        (
            call(2, hash_ids=[*range(38)]),
            ":3: 38 hash_ids, where 600 tokens are 2 blocks of 512 tokens: are its blocks of 16 ",
        ),
        (call(2, hash_ids=[1, "a"]), ":3: hash_ids[1]: expected int, got str"),
        ({"timestamp": 2000, "input_length": 1}, ":3: key missing: output_length"),
        ("\udcff", ""),
    ],
)
def test_a_bad_row_is_named_and_skipped_only_where_asked(tmp_path: Path, bad: object, message: str) -> None:
    """What is skipped is counted, and the first of it kept."""
    path = tmp_path / "trace.jsonl"
    lines = [json.dumps(call(0)), json.dumps(call(1)), bad if isinstance(bad, str) else json.dumps(bad)]
    path.write_bytes("\n".join([*lines, json.dumps(call(3))]).encode(errors="surrogateescape"))
    refusal = refusal_of(path)
    assert refusal.startswith(f"{path}:3: ")
    assert message in refusal
    trace = open_trace(path, ReadOptions(skip_bad_rows=True))
    assert [one.row for one in trace] == [1, 2, 4]
    assert (trace.bad_rows, trace.first_bad) == (1, refusal)


def test_a_first_row_cut_short_is_named_too(tmp_path: Path) -> None:
    """What the file is, its other rows tell."""
    path = write_rows(tmp_path / "a", ['{"timestamp": 0, "input_le', call(1), call(2)])
    assert refusal_of(path).startswith(f"{path}:1: no JSON, or cut short: ")
    assert len(requests_of(path, skip_bad_rows=True)) == 2
    write_rows(path, ['{"timestamp": 0, "input_le'])
    refusal = refusal_of(path)
    assert refusal.startswith(f"{path}:1: no format known here begins with ")
    assert refusal.endswith(""" '{"timestamp": 0, "input_le', which is no JSON, or cut short""")


def test_only_bad_rows_are_no_trace(tmp_path: Path) -> None:
    """Skipped or not."""
    path = write_rows(tmp_path / "a", [call(0, input_length=0), call(1, input_length=0)])
    refusal = refusal_of(path, skip_bad_rows=True)
    assert refusal.startswith(f"{path}: no requests in it: all 2 rows are bad, the first: {path}:1: input_length")


@pytest.mark.parametrize("count", [150, 2500])
def test_times_in_another_unit_are_refused(tmp_path: Path, count: int) -> None:
    """Seconds read as milliseconds are quick, but possible; these arrivals would be a million requests a second."""
    path = write_rows(tmp_path / "a", (call(number, timestamp=number / 1e3) for number in range(count)))
    assert "1.0e+06 a second: are times in another unit?" in refusal_of(path)
    assert "are times in another unit?" in refusal_of(path, skip_bad_rows=True)
    write_rows(path, (call(number, timestamp=0 if number < count - 1 else 1000) for number in range(count)))
    assert len(requests_of(path)) == count


WHOLE_FILES: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "the file is empty"),
    "blank": (b"\n \n\t\n", "the file is empty"),
    "mark": (b"\xef\xbb\xbf", "the file is empty"),
    "binary": (bytes(range(256)) * 100, "this is no text but a binary file"),
    "zeros": (b"\0" * 10_000, "this is no text but a binary file"),
    "utf16": (json.dumps(call()).encode("utf-16"), "this is no text but a binary file"),
    "latin": (
        "größe,länge\n".encode("latin-1") * 5,
        ":1: this is no UTF-8 text: a binary file, or of another encoding",
    ),
    "word": (b"hello", "no format known here begins with 'hello'"),
    "number": (b"42\n", "no format known here begins with '42'"),
    "deep": (b"[" * 1_000_000, "is no JSON, or cut short"),
    "other": (b'{"a": 1}\n', "no format known here begins with an object of a; name one of "),
    "table": (b"a,b\n1,2\n", "no format known here begins with the columns a, b; name one of"),
    "quote": (b'"' + b"x," * 100_000, "no format known here begins with"),
    "gzip": (b"\x1f\x8b\x08\x00broken", "cannot be unpacked"),
    "half": (gzip.compress(json.dumps(call()).encode() * 1000)[:60], "cannot be unpacked"),
    "zip": (b"PK\x03\x04broken", "File is not a zip file"),
    "xz": (b"\xfd7zXZ\x00rest", "is packed with xz: unpack it first"),
    "zstd": (b"\x28\xb5\x2f\xfdrest", "is packed with zstd: unpack it first"),
    "bzip2": (b"BZh91AY", "is packed with bzip2: unpack it first"),
}


@pytest.mark.parametrize("name", WHOLE_FILES)
def test_what_is_no_trace_is_refused_in_a_line(tmp_path: Path, name: str) -> None:
    """With the path at its beginning."""
    content, message = WHOLE_FILES[name]
    path = tmp_path / "a"
    path.write_bytes(content)
    refusal = refusal_of(path)
    assert refusal.startswith(str(path))
    assert message in refusal
    assert refusal_of(path, format="mooncake").startswith(str(path))


def test_what_is_no_file_is_refused_at_once(tmp_path: Path) -> None:
    """A named pipe would be waited on for ever, a device read for ever."""
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero")):
        assert refusal_of(path) == f"{path}: is no regular file"
        assert refusal_of(path, format="mooncake") == f"{path}: is no regular file"
    assert refusal_of(tmp_path) == f"{tmp_path}: no file in this folder may be a trace"
    assert refusal_of(tmp_path / "none").endswith("none: there is no such file")
    assert "File name too long" in str(_raised(tmp_path / ("x" * 300)))
    assert "no file can have this name" in str(_raised(tmp_path / "a\0b"))


def _raised(path: Path) -> WorkloadError:
    with pytest.raises(WorkloadError) as raised:
        list(open_trace(path))
    return raised.value


@pytest.mark.parametrize("packed", ["gzip", "zip"])
def test_packed_traces_are_read_as_they_are(tmp_path: Path, packed: str) -> None:
    """And say the same as the plain file."""
    plain, path = calls(tmp_path / "a.jsonl"), tmp_path / "packed"
    _pack(path, packed, plain.read_bytes())
    assert requests_of(path) == requests_of(plain)


@pytest.mark.parametrize("packed", ["gzip", "zip"])
@pytest.mark.parametrize("content", [b" " * 2**20, json.dumps(call()).encode() + b"\n" + b" " * 2**20])
def test_bombs_are_refused_before_they_are_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packed: str, content: bytes
) -> None:
    """A thousandfold of blanks: long before its end."""
    monkeypatch.setattr(text_lines, "_RATIO_FROM_BYTES", 2**20)
    path = tmp_path / "bomb"
    _pack(path, packed, content * 20)
    tracemalloc.start()
    refusal = refusal_of(path)
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert "times its size, as no trace does" in refusal
    assert peak_bytes < 12 * 2**20


def _pack(path: Path, packed: str, content: bytes) -> None:
    if packed == "gzip":
        path.write_bytes(gzip.compress(content))
        return
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("one", content)


def test_a_zip_holds_one_file_nobody_locked(tmp_path: Path) -> None:
    """Of several it could not be told which."""
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("one", b"{}")
        archive.writestr("two", b"{}")
    assert refusal_of(path) == f"{path}: a zip of 2 files; one is expected"
    _pack(path, "zip", json.dumps(call()).encode())
    locked = bytearray(path.read_bytes())
    for place in (6, locked.index(b"PK\x01\x02") + 8):
        locked[place] |= 1
    path.write_bytes(locked)
    assert "password" in refusal_of(path)


def test_blank_lines_have_an_end(tmp_path: Path) -> None:
    """A few in between are fine."""
    path = write_rows(tmp_path / "a", [call(0), "", " \t", call(1)])
    assert [one.row for one in requests_of(path)] == [1, 4]
    path.write_bytes(json.dumps(call()).encode() + b"\n" * 200_000)
    assert refusal_of(path) == f"{path}:100002: more than 100,000 blank lines in a row"


def test_lines_have_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And so have files that are one value."""
    monkeypatch.setattr(text_lines, "MOST_LINE_BYTES", 1000)
    path = write_rows(tmp_path / "a", [call(0), call(1, more="x" * 1000)])
    assert refusal_of(path).startswith(f"{path}:2: a line of more than ")
    with pytest.raises(WorkloadError, match="in one value"):
        text_lines.document(path, 500)


def test_a_first_line_of_megabytes_is_recognised(tmp_path: Path) -> None:
    """By its keys, wherever they stand in it."""
    ids = list(range(200_000))
    long = {"hash_ids": ids, "timestamp": 0, "input_length": 512 * len(ids), "output_length": 1}
    path = write_rows(tmp_path / "a", [{**long, "hash_ids": ids[:19_000], "input_length": 512 * 19_000}, call(1)])
    assert path.stat().st_size > 64 * 2**10
    assert [one.prompt_tokens for one in requests_of(path)] == [512 * 19_000, 600]
    assert "input_length: expected int <= 10000000" in refusal_of(write_rows(path, [long]))


def test_a_head_is_small_however_long_lines_are(tmp_path: Path) -> None:
    """Forty lines of a megabyte are not all looked at."""
    path = write_rows(tmp_path / "a", (call(number, more="x" * 2**20) for number in range(40)))
    tracemalloc.start()
    head = head_of(path)
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert "input_length" in head.keys
    assert peak_bytes < 8 * 2**20


def test_the_head_of_one_large_value_is_abridged(tmp_path: Path) -> None:
    """A session of 20 MB takes its text, and little more; nothing that a format is told by is lost."""
    request = {"t": 1.0, "in": 64 * 2000, "out": 1, "hash_ids": list(range(2000))}
    path = write_rows(tmp_path / "a.json", [{"requests": [request] * 2000, "block_size": 64}])
    size = path.stat().st_size
    tracemalloc.start()
    head = head_of(path)
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert head.keys == {"requests", "block_size"}
    assert head.first["requests"][0] == request
    assert size < peak_bytes < 2.6 * size
    assert open_trace(path).format.name == "weka"


@pytest.mark.parametrize("text", [b"1", b'"a"', b"[]", b"{}", b'{"a": [1, {"b": null}]}', b"[1, 2", b"{", b"\xff", b""])
def test_short_values_are_not_abridged(text: bytes) -> None:
    """They are what any reader of JSON makes of them, and None where it is none."""
    try:
        expected = json.loads(text)
    except ValueError:
        expected = None
    assert abridged_value(text) == expected


def test_a_folder_is_one_trace_of_its_files_and_nothing_else(tmp_path: Path) -> None:
    """Papers, hidden files, folders and pipes beside them are passed over."""
    write_rows(tmp_path / "a.jsonl", [call(0), call(1)])
    write_rows(tmp_path / "b.jsonl", [call(1), call(2)])
    for name in ("README.md", "LICENSE", "LICENSE.txt", "notice", ".hidden", "manifest.json", "chart.png"):
        (tmp_path / name).write_text("words", encoding="utf-8")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    assert [path.name for path in files_in(tmp_path)] == ["a.jsonl", "b.jsonl"]
    requests = requests_of(tmp_path)
    assert [(one.file, one.row) for one in requests] == [("a.jsonl", 1), ("a.jsonl", 2), ("b.jsonl", 1), ("b.jsonl", 2)]
    write_rows(tmp_path / "b.jsonl", [call(0), call(2)])
    assert "b.jsonl:1: 0 s is before the 1 s that the file before it ends with" in refusal_of(tmp_path)


def test_formats_are_not_mixed_in_a_folder(tmp_path: Path) -> None:
    """The second is named, with what both are."""
    calls(tmp_path / "a.jsonl")
    write_rows(tmp_path / "b.jsonl", [{**call(), "session_id": "s"}])
    assert refusal_of(tmp_path) == (
        f"{tmp_path}/b.jsonl: multi-turn rows (AIPerf, Dynamo), where the files before it are Mooncake JSONL: "
        "one format a folder"
    )
    (tmp_path / "b.jsonl").write_text("", encoding="utf-8")
    assert refusal_of(tmp_path) == f"{tmp_path}/b.jsonl: the file is empty"


def test_a_format_that_is_named_wrong_is_answered_with_the_nearest(tmp_path: Path) -> None:
    """And a wrong one with what its rows lack."""
    path = calls(tmp_path / "a")
    assert "format 'monocake' is not one of " in refusal_of(path, format="monocake")
    assert refusal_of(path, format="monocake").endswith("(did you mean 'mooncake'?)")
    assert refusal_of(path, format="bailian") == f"{path}:1: key missing: chat_id"
    assert "column 'prefix_len' is missing" in refusal_of(path, format="tracelab-csv")


WRITERS: dict[str, Callable[[int], dict[str, Any]]] = {
    "mooncake": call,
    "agentic-rows": lambda number: {**call(number), "session_id": f"s{number // 4}", "delay": 5},
    "bailian": lambda number: {
        **call(number, hash_ids=None),
        "timestamp": number,
        "chat_id": number,
        "parent_chat_id": -1,
    },
}


@pytest.mark.parametrize("name", WRITERS)
def test_a_large_file_is_not_held(tmp_path: Path, name: str) -> None:
    """100,000 rows in a few megabytes, but for what must be remembered of sessions."""
    path = write_rows(tmp_path / "large", map(WRITERS[name], range(100_000)))
    tracemalloc.start()
    count = sum(1 for _ in islice(open_trace(path), 20_000))
    early_bytes = tracemalloc.get_traced_memory()[1]
    if name == "mooncake":
        count = sum(1 for _ in open_trace(path))
        assert tracemalloc.get_traced_memory()[1] < early_bytes + 2**20
    tracemalloc.stop()
    assert count == (100_000 if name == "mooncake" else 20_000)
    assert early_bytes < {"mooncake": 6, "agentic-rows": 24, "bailian": 12}[name] * 2**20


def test_bad_files_of_a_folder_are_rows_of_it(tmp_path: Path) -> None:
    """One session cut short among hundreds is counted and skipped, where that is asked, and so is one there twice."""
    session = {"id": "a", "requests": [{"t": 0, "in": 130, "out": 5, "hash_ids": [1, 2]}]}
    write_rows(tmp_path / "a0.json", [json.dumps(session)[:40]])
    write_rows(tmp_path / "a1.json", [session])
    write_rows(tmp_path / "b.json", [session])
    (tmp_path / "c.json").write_text("")
    assert str(_raised(tmp_path)).startswith(f"{tmp_path / 'a0.json'}:1: no format known here begins with")
    trace = open_trace(tmp_path, ReadOptions(skip_bad_rows=True))
    for _ in range(2):  # counted anew at each pass
        assert len(list(trace)) == 1
        assert trace.bad_rows == 3
        assert "a0.json" in trace.first_bad


def test_a_skipped_row_does_not_count_as_the_last(tmp_path: Path) -> None:
    """The rate of the file is that of the rows taken."""
    path = write_rows(tmp_path / "a.jsonl", [*(call(number) for number in range(150)), call(0, timestamp=0.5)])
    assert len(list(open_trace(path, ReadOptions(skip_bad_rows=True)))) == 150


def test_a_few_requests_in_a_wrong_unit_are_enough(tmp_path: Path) -> None:
    """Twenty requests a microsecond apart; a burst of as many within a millisecond is none."""
    wrong = write_rows(tmp_path / "a.jsonl", (call(number, timestamp=number * 1e-3) for number in range(20)))
    assert "are times in another unit?" in str(_raised(wrong))
    burst = write_rows(tmp_path / "b.jsonl", (call(number, timestamp=number * 0.05) for number in range(20)))
    assert len(list(open_trace(burst))) == 20


def test_times_since_1970_are_told_apart(tmp_path: Path) -> None:
    """What is out of order may be so by a microsecond."""
    path = tmp_path / "a.csv"
    path.write_text(
        "TIMESTAMP,ContextTokens,GeneratedTokens\n"
        "2024-05-10 00:00:00.000500+00:00,10,1\n"
        "2024-05-10 00:00:00.000250+00:00,10,1\n"
    )
    assert "1715299200.00025 s is before the 1715299200.0005 s above it" in str(_raised(path))
