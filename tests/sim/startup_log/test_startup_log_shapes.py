"""The same start in the shapes logs take on their way to a file, cut, repeated, contradictory."""

import json
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from startup_log_facts import LOGS, gib, said, said_by_rank

from sim.startup_log import StartupLogError, parse_lines, read_startup_log
from sim.startup_log.fields import settings_in

ALL_LOGS = sorted(LOGS.glob("*.log"))
LINES = (LOGS / "vllm_0_11_2_hybrid_tp2.log").read_text(encoding="utf-8").splitlines()
BAR = "Capturing CUDA graphs (decode, FULL):   0%|          | 0/19\rCapturing CUDA graphs:  50%|##### | 9/19\r"


def coloured(line: str) -> str:
    """Return the line with its process in colour, as a terminal gets it."""
    return re.sub(r"^(\([^)]*\))", "\x1b[0;36m\\1\x1b[0;0m", line)


SHAPES: dict[str, Callable[[str], str]] = {
    "docker": lambda line: f"2026-04-19T12:05:26.043123Z {line}",
    "kubernetes": lambda line: f"2026-04-19T12:05:26.043123Z stderr F {line}",
    "journald": lambda line: f"Apr 19 12:05:26 node7 vllm[4711]: {line}",
    "journald's colours": lambda line: f"model-stdout: #033[1;36m{line}#033[0;0m",
    "compose": lambda line: f"vllm-1  | {line}",
    "colours": coloured,
    "json": lambda line: json.dumps({"log": f"{coloured(line)}\n", "stream": "stderr", "time": "2026-04-19"}),
    "json of a service": lambda line: json.dumps({"level": "info", "message": line}, ensure_ascii=False),
    "ray": lambda line: f"\x1b[36m(ServeReplica:llm pid=913, ip=10.0.0.7)\x1b[0m {line}",
    "progress bar before": lambda line: BAR + line,
    "windows": lambda line: f"{line}\r",
    "indented": lambda line: f"    {line}",
}


@pytest.mark.parametrize("shape", SHAPES)
def test_what_wraps_a_line_changes_nothing(shape: str, tmp_path: Path) -> None:
    """The facts of a bare log and of a wrapped one are the same."""
    wrapped = tmp_path / "wrapped.log"
    wrapped.write_text("".join(f"{SHAPES[shape](line)}\n" for line in LINES), encoding="utf-8")
    bare = parse_lines(LINES, str(wrapped))
    assert replace(read_startup_log(wrapped), notes=()) == replace(bare, notes=())


@pytest.mark.parametrize("path", ALL_LOGS, ids=lambda path: path.stem)
def test_a_file_says_what_its_lines_say(path: Path) -> None:
    """The search for marks leaves out no line that says something."""
    lines = path.read_text(encoding="utf-8").splitlines()
    assert read_startup_log(path) == parse_lines(lines, str(path))


@pytest.mark.parametrize("path", ALL_LOGS, ids=lambda path: path.stem)
def test_a_start_deep_in_a_long_log_is_found(path: Path, tmp_path: Path) -> None:
    """Behind and before megabytes of serving, the last start is read, with its line numbers."""
    serving = b"INFO 05-03 [loggers.py:310] Engine 000: Avg prompt throughput: 1.0 tokens/s, GPU KV cache usage: 3.2%\n"
    long = tmp_path / "long.log"
    long.write_bytes(path.read_bytes() + serving * 100_000 + path.read_bytes() + serving * 100_000)
    alone, facts = read_startup_log(path), read_startup_log(long)
    assert said(replace(facts, notes=())) == said(replace(alone, notes=()))
    assert said_by_rank(facts) == said_by_rank(alone)
    opening = re.fullmatch(r"the log holds 2 starts: the last, from line (\d+), is read", facts.notes[0])
    assert opening is not None
    lines = path.read_bytes().splitlines()
    assert long.read_bytes().splitlines()[int(opening[1]) - 1] in lines[:3]
    assert int(opening[1]) > len(lines) + 100_000


def test_a_log_of_powershell_is_read(tmp_path: Path) -> None:
    """A redirect there writes UTF-16."""
    path = tmp_path / "windows.log"
    path.write_text("\r\n".join(LINES), encoding="utf-16")
    assert read_startup_log(path).tokens == 1_947_520


def test_the_last_complete_start_counts() -> None:
    """A restart that was cut does not hide the start before it."""
    other = [line.replace("44.59 GiB", "40.00 GiB") for line in LINES]
    facts = parse_lines([*LINES, *other, *LINES[:6]], "run.log")
    assert facts.kv_bytes == gib(40)
    assert facts.notes[0] == (
        f"the log holds 3 starts: the last that sized its KV, from line {len(LINES) + 1}, is read"
    )
    assert not facts.is_cut


def test_engines_side_by_side_are_one_start() -> None:
    """Data parallel engines open once each; the same one twice is a restart."""
    engine = "(EngineCore_DP{} pid=1) INFO [core.py:93] Initializing a V1 LLM engine (v0.11.2) with config: model='m', "
    sized = "(EngineCore_DP{} pid=1) INFO GPU KV cache size: {} tokens"
    both = [engine.format(0), engine.format(1), sized.format(0, "96,000"), sized.format(1, "80,000")]
    facts = parse_lines(both, "run.log")
    assert facts.notes == ()
    assert facts.tokens == 80_000
    assert [rank.rank for rank in facts.ranks] == ["EngineCore_DP0", "EngineCore_DP1"]
    assert "2 starts" in parse_lines([*both, *both], "run.log").notes[0]


def test_prints_that_contradict_each_other_are_noted() -> None:
    """The last one holds, except for what is bounded by the smallest."""
    facts = parse_lines(
        [
            "INFO vLLM API server version 0.10.2",
            "INFO Initializing a V1 LLM engine (v0.11.0) with config: model='m', ",
            "INFO Model loading took 14.00 GiB and 1 s",
            "INFO Model loading took 15.00 GiB and 1 s",
            "INFO Available KV cache memory: 9.10 GiB",
            "INFO Available KV cache memory: 10.33 GiB",
        ],
        "run.log",
    )
    assert facts.notes == (
        "the log names the versions 0.10.2, 0.11.0",
        "weights is printed as 14.00 GiB, 15.00 GiB: the last is used",
        "kv is printed as 9.10 GiB, 10.33 GiB: the smallest is used",
    )
    assert facts.ranks[0].weights_bytes == gib(15)
    assert facts.kv_bytes == gib(9.1)


@pytest.mark.parametrize("characters", range(1, 12))
def test_half_a_number_is_never_a_number(characters: int) -> None:
    """A log that is cut within a line says so, and nothing of that line."""
    whole = "INFO Available KV cache memory: 44.59 GiB"
    lines = ["INFO vLLM API server version 0.11.2", whole[:-characters]]
    facts = parse_lines(lines, "run.log")
    assert facts.is_cut
    assert facts.kv_bytes is None


def test_a_number_at_the_very_end_of_a_file_is_not_trusted(tmp_path: Path) -> None:
    """297 may have been 29751, unless its line is ended."""
    path = tmp_path / "cut.log"
    text = "INFO vLLM API server version 0.11.2\nINFO Engine 000: after num_gpu_blocks is: 297"
    path.write_text(text, encoding="utf-8")
    assert read_startup_log(path).is_cut
    assert read_startup_log(path).num_gpu_blocks is None
    path.write_text(f"{text}\n", encoding="utf-8")
    assert read_startup_log(path).num_gpu_blocks == 297


def test_a_cut_behind_the_pool_is_seen_at_the_last_line() -> None:
    """KV is sized, and yet the last line holds half a fact."""
    whole = parse_lines(LINES, "run.log")
    cut = parse_lines([*LINES, "(Worker_TP0 pid=257) INFO Graph capturing finished in 18 secs, to"], "run.log")
    assert not whole.is_cut
    assert cut.is_cut
    assert cut.tokens == whole.tokens


def test_a_setting_that_is_cut_is_left_out() -> None:
    """max_seq_len=3276 may have been 32768."""
    assert settings_in("model='m', max_seq_len=3276") == {"model": "m"}
    assert settings_in("model='m', max_seq_len=32768, tensor") == {"model": "m", "max_seq_len": 32_768}
    assert settings_in("model='m', served_model_name='no, not") == {"model": "m"}
    assert settings_in("seed=0)") == {"seed": 0}


def test_settings_keep_their_types() -> None:
    """Commas count outside brackets and quotes alone."""
    text = (
        "a=1, b=0.5, c=None, d=True, e='x, y=2', f=[1, {'k': 2}], g=<Mode.FULL: (2, 1)>, h=torch.half, i=1e400, j=-1)"
    )
    assert settings_in(text) == {
        "a": 1,
        "b": 0.5,
        "c": None,
        "d": True,
        "e": "x, y=2",
        "f": "[1, {'k': 2}]",
        "g": "<Mode.FULL: (2, 1)>",
        "h": "torch.half",
        "i": float("inf"),
        "j": -1,
    }


@given(st.sampled_from(ALL_LOGS), st.data())
def test_a_mutilated_log_is_read_or_refused_in_one_line(path: Path, data: st.DataObject) -> None:
    """Lines lost, cut or swapped raise nothing but StartupLogError."""
    lines = path.read_text(encoding="utf-8").splitlines()
    kept = data.draw(st.lists(st.sampled_from(lines), max_size=len(lines)))
    cuts = data.draw(st.lists(st.integers(0, 400), min_size=len(kept), max_size=len(kept)))
    with suppress(StartupLogError):
        facts = parse_lines([line[:cut] if cut else line for line, cut in zip(kept, cuts, strict=True)], "run.log")
        whole = parse_lines(lines, "run.log")
        most = max((rank.kv_bytes or 0 for rank in whole.ranks), default=0) + gib(0.01)
        assert facts.kv_bytes is None or 0 < facts.kv_bytes <= most
        assert facts.num_gpu_blocks is None or facts.num_gpu_blocks > 0
        assert facts.non_kv_bytes is None or facts.kv_bytes is not None


@pytest.mark.parametrize(
    ("line", "fact", "value"),
    [
        ("Capping capture sizes from 512 to 352 to fit Mamba cache blocks (361 blocks", "mamba_blocks", 361),
        ("GPU 0: NVIDIA A100-SXM4-40GB", "gpu_name", "NVIDIA A100-SXM4-40GB"),
        ("Multiplying the GPU KV cache size by the cp_world_size 4 (pcp_world_size 1", "context_parallel_size", 4),
        ("LLM Engine (v0.6.4.post1) with config: model='n', ", "engine_version", "0.6.4.post1"),
    ],
)  # fmt: skip
def test_single_lines_beside_the_logs(line: str, fact: str, value: object) -> None:
    """Wordings that no log above holds."""
    facts = parse_lines(["INFO non-default args: {'model': 'm', 'seed': 0}", line], "run.log")
    assert getattr(facts, fact) == value


def test_a_fixed_pool_is_the_users(tmp_path: Path) -> None:
    """With --kv-cache-memory-bytes vLLM profiles nothing; an override without a profile is taken as given."""
    reserved = (
        "(Worker_TP3 pid=2) INFO Initial free memory 93.95 GiB, reserved 4.0 GiB memory for KV Cache as specified by"
    )
    path = tmp_path / "fixed.log"
    path.write_text(
        f"{reserved}\nINFO Overriding num_gpu_blocks=740 with num_gpu_blocks_override=600\n", encoding="utf-8"
    )
    facts = read_startup_log(path)
    assert facts.kv_bytes == gib(4)
    assert facts.num_gpu_blocks == 600
    assert facts.non_kv_bytes is None
