"""Files that are no logs, and numbers that no machine prints: one clear line each."""

import gzip
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.errors import KvcliffError
from sim.startup_log import StartupLogError, parse_lines, read_startup_log, start
from sim.startup_log import read as reading

OPENING = "INFO Initializing a V1 LLM engine (v0.11.2) with config: model='m', "


def test_the_error_is_one_the_command_line_prints() -> None:
    """It is in the project's tree."""
    assert issubclass(StartupLogError, KvcliffError)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("Available KV cache memory: nan GiB", "kv bytes is nan, which is not a size"),
        ("Available KV cache memory: 1e308 GiB", "kv bytes is 1e308, which is not a size"),
        ("Available KV cache memory: -inf GiB", "kv bytes is -inf, which is not a size"),
        ("GPU KV cache size: -5 tokens", "tokens is -5, which is not a whole number from 0 to"),
        ("GPU KV cache size: 1.5 tokens", "tokens is 1.5, which is not a whole number"),
        (f"GPU KV cache size: 1{'0' * 400} tokens", r"tokens is 10000000000000000000… \(401 characters\), which"),
        (f"Actual usage is 1{'0' * 400} GiB for weight", "weights bytes is 1000"),
        ("# GPU blocks: 10000000000000000, # CPU blocks: 1", "num gpu blocks is 10000000000000000, which is not"),
        ("Maximum concurrency for 8,192 tokens per request: -1.00x", "max concurrency is -1.00, which is not a number"),
        (
            "Desired GPU memory utilization is (90, 71.27 GiB)",
            "utilisation is 90, which is not a share between 0 and 2",
        ),
        ("max_total_num_tokens=-89624, chunked_prefill_size=1", "tokens is -89624, which is not a whole number"),
        (
            "KV Cache is allocated. #tokens: 1, K size: -1.00 GB, V size: 1.00 GB",
            "k bytes is -1.00, which is not a size",
        ),
    ],
)
def test_a_number_that_cannot_be_names_place_and_quantity(line: str, message: str) -> None:
    """The line number leads to it."""
    with pytest.raises(StartupLogError, match=rf"^run\.log:2: {message}") as caught:
        parse_lines([OPENING, line], "run.log")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("setting", ["max_seq_len=1e308", f"max_seq_len=9{'9' * 15}", "tensor_parallel_size=1e400"])
def test_a_setting_that_cannot_be_is_named(setting: str) -> None:
    """Printed settings are checked like printed sizes."""
    with pytest.raises(StartupLogError, match=rf"^run\.log: {setting.partition('=')[0]} is .* more than can be"):
        parse_lines([f"{OPENING}{setting}, seed=0"], "run.log")


def test_a_setting_left_to_the_engine_is_none() -> None:
    """-1 and 0 are no lengths."""
    assert parse_lines([f"{OPENING}max_seq_len=-1, block_size=0, seed=0"], "run.log").max_model_len is None


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file is empty"),
        (b" \n\r\n", "the file is empty"),
        (b"\xff\xfe", "the file is empty"),
        (b"12345", "no line of it is one"),
        (b"Hello\n", "no line of it is one that vLLM or SGLang print about memory while starting"),
        (b"\x00\x01\x02" * 1000, "no line of it is one"),
        (b"INFO Application startup complete.\n", "no line of it is one"),
        (gzip.compress(b"INFO vLLM API server version 0.11.2\n", mtime=0), "the file is compressed: unpack it first"),
    ],
)
def test_a_file_that_is_no_log_says_so(content: bytes, message: str, tmp_path: Path) -> None:
    """Empty, binary, compressed or of something else."""
    path = tmp_path / "it.log"
    path.write_bytes(content)
    with pytest.raises(StartupLogError, match=message) as caught:
        read_startup_log(path)
    assert str(caught.value).startswith(f"{path}: ")


@pytest.mark.parametrize("path", [Path("no/such.log"), Path(), Path("a\0b")])
def test_a_file_that_cannot_be_opened_says_why(path: Path) -> None:
    """Missing, a folder, or no name at all."""
    with pytest.raises(StartupLogError):
        read_startup_log(path)


ENDLESS: dict[str, Callable[[], bytes]] = {
    "one line": lambda: b"Available KV cache memory: " + b"9" * 2**25,
    "facts": lambda: b"GPU KV cache size: 12,345 tokens\n" * 2**20,
    "halves of facts": lambda: b"(Worker_TP0 pid=1) GPU KV cache size: 12,345 token GiB for weight\n" * 2**19,
    "openings": lambda: b"INFO Initializing a V1 LLM engine (v0.11.2) with config: model='m', \n" * 2**19,
    "quotes": lambda: (OPENING.encode() + b"'\\" * 8000 + b"\n") * 2**11,
}


@pytest.mark.parametrize("kind", ENDLESS)
def test_the_work_on_an_endless_log_is_bounded(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many lines look like facts, at most some thousands of them are looked at, and a note says so."""
    path = tmp_path / "endless.log"
    path.write_bytes(ENDLESS[kind]())
    looked_at = []
    monkeypatch.setattr(start.Start, "read", lambda _self, number, text: looked_at.append((number, len(text))))
    with pytest.raises(StartupLogError):  # nothing was kept
        read_startup_log(path)
    assert len(looked_at) <= 3 * reading._MOST_LINES
    assert sum(length for _, length in looked_at) <= 2**22


def test_a_log_that_was_not_read_whole_says_so(tmp_path: Path) -> None:
    """The note names the bytes."""
    path = tmp_path / "endless.log"
    path.write_bytes(b"GPU KV cache size: 12,345 tokens\n" * 2**15)
    facts = read_startup_log(path)
    assert facts.tokens == 12_345
    assert facts.notes == (
        "bytes 165,004 to 1,081,344 are not read: more looks like a start there than a start prints",
    )


@given(content=st.binary(max_size=400))
def test_any_bytes_are_read_or_refused(content: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Nothing but StartupLogError comes out."""
    path = tmp_path_factory.getbasetemp() / "any.log"
    path.write_bytes(b"INFO vLLM API server version 0.11.2\nAvailable KV cache memory: " + content)
    with suppress(StartupLogError):
        assert read_startup_log(path).engine == "vllm"


@given(st.text(alphabet="0123456789.,-+enaif GiB", max_size=60))
def test_any_number_is_read_or_refused(number: str) -> None:
    """A size that is kept is finite."""
    try:
        facts = parse_lines([OPENING, f"Available KV cache memory: {number} GiB"], "run.log")
    except StartupLogError:
        return
    assert facts.kv_bytes is None or abs(facts.kv_bytes) <= 2**50
