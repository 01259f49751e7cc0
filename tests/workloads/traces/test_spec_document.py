"""YAML and JSON that describe a load: what is refused before anything is built of it."""

import gzip
from pathlib import Path

import pytest
import yaml
from trace_requests import opened, read

from workloads.errors import WorkloadError

GOOD = "data: {type: conversation_replay, conversation_replay: {num_conversations: 2}}\n"
LAUGHS = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 9)}]\n" for level in range(1, 12)
)


@pytest.mark.parametrize(
    "text",
    [
        GOOD,
        "\ufeff" + GOOD,
        "# a comment\n" * 200 + GOOD,
        "---\n" + GOOD,
        '{"data": {"type": "conversation_replay", "conversation_replay": {"num_conversations": 2}}}',
        "base: &base {num_conversations: 2}\ndata: {type: conversation_replay, conversation_replay: *base}\n",
        "data:\n  conversation_replay:\n    num_conversations: '2'\n    dynamic_system_prompt_len: null\n",
    ],
    ids=["plain", "mark", "long comment", "document", "JSON", "alias", "null"],
)
def test_a_configuration_is_recognised_however_it_is_written(tmp_path: Path, text: str) -> None:
    """By its keys."""
    path = tmp_path / "a.yaml"
    path.write_text(text, encoding="utf-8")
    assert opened(path).format.name == "conversation-replay"
    assert len(read(path)) == 20


def test_a_name_without_an_ending_is_enough(tmp_path: Path) -> None:
    """Also packed."""
    (tmp_path / "plain").write_text(GOOD)
    (tmp_path / "packed.yaml.gz").write_bytes(gzip.compress(GOOD.encode()))
    assert [len(read(tmp_path / name)) for name in ("plain", "packed.yaml.gz")] == [20, 20]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("data: [1, 2\n", "a.yaml:2: no YAML: "),
        ("data: {conversation_replay: 5}\n", "data.conversation_replay: expected object, got int"),
        ("data: {conversation_replay: {num_conversations: 2}}\nx: *nothing\n", "an alias of nothing or of itself"),
        ("a: &a [*a]\n" + GOOD, "an alias of nothing or of itself"),
        (LAUGHS + GOOD, "more than 200,000 values"),
        ("a: " + "[" * 100_000 + "\n" + GOOD, "maximum nesting depth" if yaml.__with_libyaml__ else "nested more than"),
        ("a: " + "{b: " * 100_000 + "\n" + GOOD, "nested more than 40 deep"),
        ("a: " + "x" * 2**20 + "\n" + GOOD, "more than 1 MiB in one value"),
        ("a: !!python/object/apply:os.system [ls]\n" + GOOD, "no YAML: could not determine a constructor"),
        ("a: 2024-99-99\n" + GOOD, "no YAML: month must be in 1..12"),
        ("a: {[1]: 2}\n" + GOOD, "no YAML: found unhashable key"),
        (GOOD + "---\n" + GOOD, "no YAML: but found another document"),
        ("a: " + "9" * 10_000 + "\n" + GOOD, "no YAML: Exceeds the limit"),
        ("", "the file is empty"),
        ("\0\1\2", "this is no text but a binary file"),
        ("data: \x01\n", "no YAML: "),
        ("just text\n", "no format known here"),
    ],
)
def test_hostile_files_are_refused_in_a_line(tmp_path: Path, text: str, message: str) -> None:
    """Aliases are counted as if written out; depth is counted before anything recurses."""
    path = tmp_path / "a.yaml"
    path.write_text(text)
    with pytest.raises(WorkloadError) as raised:
        read(path)
    assert str(path) in str(raised.value)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "name", ["conversation-replay", "shared-prefix", "blis", "vllm-multi-turn", "workload-catalog"]
)
def test_a_named_format_says_what_it_misses(tmp_path: Path, name: str) -> None:
    """Also of a file of another kind."""
    path = tmp_path / "a.yaml"
    path.write_text("5\n")
    with pytest.raises(WorkloadError, match=str(path)):
        read(path, format=name)
