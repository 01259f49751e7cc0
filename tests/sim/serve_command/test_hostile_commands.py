"""What cannot be read, or may matter and is unknown, is one clear line that names the flag and its place."""

from pathlib import Path

import pytest

from sim.serve_command import CommandError, read_command

REFUSED = {
    # numbers
    "negative": ("--max-model-len -5", "word 4: --max-model-len '-5' must be a whole number from 1"),
    "zero": ("--max-num-seqs 0", "--max-num-seqs '0' must be a whole number from 1 to"),
    "not a number": ("--gpu-memory-utilization nan", "--gpu-memory-utilization 'nan' must be a number above 0"),
    "infinite": ("--gpu-memory-utilization inf", "must be a number above 0 and at most 1"),
    "more than all": ("--gpu-memory-utilization 1.01", "must be a number above 0 and at most 1"),
    "percent": ("--gpu-memory-utilization 90%", "must be a number above 0 and at most 1"),
    "huge float": ("--swap-space 1e308", "--swap-space '1e308' must be a number from 0 to"),
    "huge whole": (f"--block-size 1{'0' * 400}", "must be a whole number from 1 to 65,536"),
    "huge scaled": ("--max-model-len 9999999999T", "must be a whole number from 1 to"),
    "decimal binary": ("--max-model-len 1.5K", "mixes a decimal point with K, which is 1,024"),
    "unknown unit": ("--kv-cache-memory-bytes 16GB", "ends in an unknown unit: 'GB' is not one of"),
    "fraction of a rank": ("-tp 0.5", "-tp '0.5' must be a whole number"),
    "words": ("--max-model-len long", "--max-model-len 'long' must be a whole number"),
    "empty": ("--max-model-len ''", "--max-model-len '' must be a whole number"),
    "other digits": ("--max-num-seqs \u0663", "must be a whole number"),
    "a list of letters": ("--cudagraph-capture-sizes 1 x", "--cudagraph-capture-sizes '1 x' must be a whole number"),
    # values
    "missing at the end": ("--max-model-len", "word 4: --max-model-len has no value"),
    "missing amid": ("--max-model-len --port 1", "--max-model-len has no value before '--port'"),
    "empty after equals": ("--dtype=", "--dtype '' is unknown"),
    "dtype": ("--kv-cache-dtype fp9", "--kv-cache-dtype 'fp9' is unknown: 'fp9' is not one of"),
    "graph mode": ("-O.cudagraph_mode=SOME", "--compilation-config cudagraph_mode 'SOME' is unknown"),
    "switch with nonsense": ("--enforce-eager=maybe", "--enforce-eager 'maybe' must be true or false"),
    "broken JSON": ("--speculative-config {method:ngram}", "--speculative-config '{method:ngram}' is not JSON"),
    "a list for an object": ("--hf-overrides [1]", "--hf-overrides '[1]' must be a JSON object"),
    "NaN in JSON": ("""--hf-overrides '{"a": NaN}'""", "holds NaN, which is no number"),
    "1e999 in JSON": ("""--hf-overrides '{"a": 1e999}'""", "holds a number out of range"),
    "many digits in JSON": (f"""--hf-overrides '{{"a": 1{"0" * 400}}}'""", "holds a number of 401 digits"),
    "deep JSON": ("--hf-overrides '" + '{"a":' * 20_000 + "'", "is nested too deep"),
    "a misspelt key": (
        """--speculative-config '{"num_speculative_token": 3}'""",
        "--speculative-config has no key 'num_speculative_token' (did you mean 'num_speculative_tokens'?)",
    ),
    "a misspelt dotted key": ("--compilation-config.cudagraph_mod FULL", "(did you mean 'cudagraph_mode'?)"),
    "keys of a number": ("--max-model-len.x 3", "--max-model-len takes no JSON keys"),
    "a value in JSON": (
        """--speculative-config '{"num_speculative_tokens": -1}'""",
        "--speculative-config num_speculative_tokens '-1' must be a whole number",
    ),
    "images": ("""--limit-mm-per-prompt '{"image": -1}'""", "must be a whole number from 0"),
    # names
    "misspelt": ("--max-modle-len 4096", "unknown flag --max-modle-len (did you mean --max-model-len?)"),
    "misspelt, harmless": ("--prot 8000", "unknown flag --prot (did you mean --port?)"),
    "misspelt by two": ("--tensor-paralel-siz 2", "(did you mean --tensor-parallel-size?)"),
    "plural": ("--max-num-batched-token 2.5", "must be a whole number"),
    "SGLang's": (
        "--context-length 4096",
        "--context-length is a flag of sglang, not of vllm; vllm has --max-model-len",
    ),
    "SGLang's alone": ("--mem-fraction-static 0.9", "--mem-fraction-static is a flag of sglang, not of vllm"),
    "speaks of memory": ("--kv-shrink-factor 3", "unknown flag --kv-shrink-factor, which may matter for memory"),
    "ambiguous": ("--max-num 3", "(could be --max-num-batched-tokens, --max-num-seqs"),
    "short": ("-tp2", "unknown short flag -tp2 (did you mean '-tp'?)"),
    # sense
    "two models": ("--model other", "two models are named, 'm' and 'other'"),
    "a word too many": ("--enforce-eager other", "word 5: unexpected word 'other', which no flag takes"),
    "batch below sequences": ("--max-num-batched-tokens 64 --max-num-seqs 128", "is below max_num_seqs 128"),
    "no file": ("--config nowhere.yaml", "nowhere.yaml: no such file"),
    "no regular file": ("--config /dev/zero", "--config '/dev/zero': is not a YAML file"),
    "a variable": ("-tp $TP", "-tp '$TP' holds '$TP', whose value is not in the command"),
    "a computed value": ("-tp $(nvidia-smi -L | wc -l)", "holds '$(nvidia-smi -L | wc -l)', whose value"),
    "a placeholder": ("--max-model-len <length>", "holds the placeholder <length>"),
}

NO_COMMAND = {
    "empty": ("", "the command is empty"),
    "blank": (" \n\t ", "the command is empty"),
    "another program": ("ls -l", "no server is started here; expected `vllm serve MODEL ...`"),
    "another command": ("vllm bench throughput --model m", "'vllm bench' starts no server"),
    "misspelt": ("vllm sevre m", "'vllm sevre' starts no server (did you mean 'serve'?)"),
    "an open quote": ('vllm serve m \\\n --hf-overrides \'{"a": 1}', "line 2: the quote ' is never closed"),
    "an open double quote": ('vllm serve "m', 'word 3: the quote " is never closed'),
    "binary": ("\x7fELF\x02\x01\x00\x00", "the command is not plain text"),
    "a lone surrogate": ("vllm serve m\udcff", "the command is not plain text"),
    "100 MB": ("x" * 10**8, "the command has 100,000,000 characters; at most 200,000 are read"),
    "docker without image": ("docker run --rm -it", "word 2: the container to run names no image"),
    "docker flag without value": ("docker run --gpus", "'--gpus' has no value"),
    "another image": ("docker run nginx:1.27 -g x", "no server is started here"),
    "the model is a placeholder": ("vllm serve <model>", "the model '<model>' holds the placeholder"),
    "broken YAML": ("args: [--model, m", "command:1"),
    "a manifest of something else": ("image: nginx\nargs: [x]", "no container here starts a server"),
    "nested shells": (
        'bash -c "bash -c \'bash -c \\"bash -c x\\"\'"',
        "word 3: shells are nested deeper than 3",
    ),
    "a name too long": ("vllm serve m --kv" + "a" * 1000, "is no flag"),
    "a newline in a name": ("vllm serve m '--a\n=1'", "line 1: '--a\\n' is no flag"),
    "elided": ("vllm serve ... -tp 2", "the model '...' holds the placeholder ..."),
    "no name": ("vllm serve m -- x", "word 4: '--' is no flag"),
    "too many words": ("vllm serve m " + "--enforce-eager " * 500, "the command has 501 words"),
    "doubling variables": (
        "A=0123456789\n" + "".join("A=$A$A$A$A$A$A$A$A$A$A\n" for _ in range(9)) + "vllm serve $A",
        "the command's variables stand for more than",
    ),
    "bad variable": ("CUDA_VISIBLE_DEVICES= vllm serve m", "CUDA_VISIBLE_DEVICES='' hides every GPU"),
    "bad partition": (
        "VLLM_PP_LAYER_PARTITION=3,x vllm serve m",
        "VLLM_PP_LAYER_PARTITION='3,x' must be a whole number",
    ),
    "misspelt variable": (
        "VLLM_PP_LAYER_PARTITON=1,2 vllm serve m",
        "word 1: unknown variable VLLM_PP_LAYER_PARTITON (did you mean VLLM_PP_LAYER_PARTITION?)",
    ),
    "vLLM's flag": (
        "sglang serve m --gpu-memory-utilization 0.9",
        "--gpu-memory-utilization is a flag of vllm, not of sglang",
    ),
    "attention by data": (
        "sglang serve m --tp 4 --dp 3 --enable-dp-attention",
        "dp_size 3 must divide tp_size 4",
    ),
}


@pytest.mark.parametrize(("flags", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_a_bad_flag_is_refused_with_its_place(flags: str, message: str) -> None:
    """One line, short enough to read, that says what is wrong where."""
    with pytest.raises(CommandError) as refusal:
        read_command(f"vllm serve m {flags}")
    assert message in str(refusal.value)
    assert "\n" not in str(refusal.value)
    assert len(str(refusal.value)) < 500


@pytest.mark.parametrize(("text", "message"), NO_COMMAND.values(), ids=NO_COMMAND.keys())
def test_a_text_that_starts_no_readable_server_is_refused(text: str, message: str) -> None:
    """Whatever the text."""
    with pytest.raises(CommandError) as refusal:
        read_command(text)
    assert message in str(refusal.value)
    assert "\n" not in str(refusal.value)
    assert len(str(refusal.value)) < 500


def test_a_place_is_a_line_when_there_are_several() -> None:
    """Lines count from the first, also when continued."""
    with pytest.raises(CommandError, match=r"^line 4: --block-size 'x' must be"):
        read_command("# serve\n$ vllm serve m \\\n  --port 1 \\\n  --block-size x")


def test_a_bad_argument_of_a_manifest_is_refused_with_its_line() -> None:
    """Lines count over all documents."""
    with pytest.raises(CommandError, match=r"^line 6: --block-size 'x' must be"):
        read_command("kind: Service\n---\nargs:\n- --model=m\n\n- --block-size=x\n")


def test_a_bad_value_of_a_file_is_refused_with_its_line(tmp_path: Path) -> None:
    """The place is the file's."""
    config = tmp_path / "serve.yaml"
    config.write_text("port: 1\nmax-num-seqs: none\n")
    with pytest.raises(CommandError, match=r"serve.yaml:2: --max-num-seqs 'none' must be a whole number"):
        read_command(f"vllm serve m --config {config}")


def test_a_file_that_names_another_is_refused(tmp_path: Path) -> None:
    """One file, no chain of them."""
    config = tmp_path / "serve.yaml"
    config.write_text(f"config: {config}\n")
    with pytest.raises(CommandError, match="names another --config"):
        read_command(f"vllm serve m --config {config}")


def test_too_many_words_are_refused() -> None:
    """Also when a shell has cut them."""
    with pytest.raises(CommandError, match="more than 200,000 characters"):
        read_command(["vllm", "serve", *(["--enforce-eager"] * 20_000)])
