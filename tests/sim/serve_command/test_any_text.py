"""Whatever the text, a ServeCommand or one clear line; settings written as flags are read back."""

from typing import Any

from command_settings import settings
from hypothesis import example, given
from hypothesis import strategies as st

from sim.serve_command import CommandError, ServeCommand, read_command
from sim.serve_command.flags import Flag, FlagTable
from sim.serve_command.sglang_flags import SGLANG
from sim.serve_command.values import SWITCH, SWITCH_OFF
from sim.serve_command.vllm_flags import VLLM

SHELL = "vllm serve;python -m sglang.launch_server;docker run;vllm/vllm-openai:v0.11.2;bash -c;-e;export;A=1;\n;\\\n;# "
FLAGS = "$A ${A:-b} --max-model-len --max-model-len= -tp --speculative-config --hf-overrides.a.b+ -O -O3 -O.x=1 --kv-x"
SIGNS = "--no-enable-lora -- - --frob m 8k -1 nan 1e308 true { } [ ] \" ' \\ ; & && | > 2>&1 < <m> ` $( ) : , . = 0 |"
YAML = "```;- ;args:;image: ;command: ;: ;---;{a: ;&x ;*x;!!y ;\x00;\u00e9;--config;/dev/null;\u2014;\u201c;\u2019"
PIECES = [*SHELL.split(";"), *FLAGS.split(), *SIGNS.split(), *YAML.split(";")]
TEXTS = st.one_of(
    st.text(),
    st.lists(st.sampled_from(PIECES), max_size=25).map(" ".join),
    st.lists(st.sampled_from(PIECES), max_size=25).map("".join),
    st.lists(st.sampled_from(PIECES), max_size=12).map(lambda words: "vllm serve m " + " ".join(words)),
    st.lists(st.sampled_from(PIECES), max_size=12).map(lambda words: "args:\n- " + "\n- ".join(words)),
)


def outcome(words: Any) -> None:
    """Read, and check that a refusal is one line."""
    try:
        command = read_command(words, {"A": "x --port 1", "VLLM_USE_V1": "maybe"})
    except CommandError as problem:
        refusal = str(problem)
    else:
        assert isinstance(command, ServeCommand)
        assert not any("\n" in line for line in (*command.notes, *command.ignored))
        return
    assert "\n" not in refusal
    assert len(refusal) < 1000


@given(TEXTS)
@example("\ud800")
def test_any_text_is_read_or_refused(text: str) -> None:
    """Never another exception."""
    outcome(text)


@given(st.lists(st.one_of(st.text(), st.sampled_from(PIECES)), max_size=20))
def test_any_words_are_read_or_refused(words: list[str]) -> None:
    """Never another exception, whatever a shell has cut."""
    outcome(["vllm", "serve", *words])


COUNTS = st.integers(1, 1000)
NAMES = st.text("abcXYZ/-_.09", min_size=1, max_size=12).filter(lambda name: name[0] not in "-.")
DRAWN: dict[str, st.SearchStrategy[Any]] = {
    "max_model_len": COUNTS,
    "max_num_batched_tokens": st.integers(1000, 10**6),
    "gpu_memory_utilization": st.floats(0.01, 1),
    "mem_fraction_static": st.floats(0.01, 1),
    "dtype": st.sampled_from(["auto", "bfloat16", "half"]),
    "kv_cache_dtype": st.sampled_from(["auto", "fp8_e4m3", "bfloat16"]),
    "mamba_cache_dtype": st.sampled_from(["float32", "bfloat16"]),
    "mamba_ssm_cache_dtype": st.sampled_from(["float32", "bfloat16"]),
    "mamba_cache_mode": st.sampled_from(["none", "align"]),
    "performance_mode": st.sampled_from(["balanced", "interactivity", "throughput"]),
    "mm_encoder_tp_mode": st.sampled_from(["weights", "data"]),
    "lora_dtype": st.sampled_from(["auto", "float16"]),
    "optimization_level": st.integers(0, 3),
    "cudagraph_capture_sizes": st.lists(COUNTS, min_size=1, max_size=5).map(tuple),
    "kv_cache_dtype_skip_layers": st.lists(st.sampled_from(["0", "1", "swa"]), min_size=1).map(tuple),
}
TEXT_FIELDS = ("model", "tokenizer", "revision", "hf_config_path", "quantization", "load_format", "attention_backend")
TEXT_FIELDS += ("mamba_radix_cache_strategy",)
DECIMALS = ("cpu_offload_gb", "swap_space", "mamba_full_memory_ratio", "swa_full_tokens_ratio")
JSON_OR_OTHERS = {"hf_overrides", "limit_mm_per_prompt", "config", "device_ids", "cuda_graph_sizes", ""}
JSON_OR_OTHERS |= {"enable_dp_attention"}  # goes with some sizes only


def simple_flags(table: FlagTable) -> list[Flag]:
    """Return one flag for each field that it fills by itself."""
    flags = {flag.target: flag for flag in reversed(table.flags) if flag.target is not None and "." not in flag.target}
    return [flag for target, flag in sorted(flags.items()) if target not in JSON_OR_OTHERS]


def drawn_values(flag: Flag) -> st.SearchStrategy[Any]:
    """Return values that a field may have."""
    target = flag.target or ""
    if flag.kind in {SWITCH, SWITCH_OFF}:
        return st.booleans()
    if target in TEXT_FIELDS:
        return NAMES
    if target in DECIMALS:
        return st.floats(0.01, 100)
    return DRAWN.get(target, COUNTS)


def rendered(flag: Flag, name: str, value: Any) -> list[str]:
    """Write a setting as words; a switch against its name in its negated form."""
    if flag.kind in {SWITCH, SWITCH_OFF}:
        return [name if value == (flag.kind is SWITCH) else f"--no-{name[2:]}"]
    if isinstance(value, tuple):
        return [name, *map(str, value)]
    return [name, str(value)]


@st.composite
def written_settings(draw: st.DrawFn, table: FlagTable) -> tuple[dict[str, Any], list[str]]:
    """Draw settings and the words that write them, each under one of its names, in any order."""
    chosen = draw(st.lists(st.sampled_from(simple_flags(table)), unique_by=lambda flag: flag.target))
    values, words = {}, []
    for flag in chosen:
        long_names = [name for name in flag.names if name.startswith("--")]
        values[flag.target or ""] = value = draw(drawn_values(flag))
        name = draw(st.sampled_from(long_names if flag.kind in {SWITCH, SWITCH_OFF} else flag.names))
        words += rendered(flag, name, value)
    return values, words


@given(written_settings(VLLM))
def test_vllm_settings_written_as_flags_are_read_back(written: tuple[dict[str, Any], list[str]]) -> None:
    """Every field, under every name of its flag."""
    values, words = written
    assert settings(read_command(["vllm", "serve", *words])) == values


@given(written_settings(SGLANG))
def test_sglang_settings_written_as_flags_are_read_back(written: tuple[dict[str, Any], list[str]]) -> None:
    """Every field, under every name of its flag."""
    values, words = written
    assert settings(read_command(["sglang", "serve", *words])) == values
