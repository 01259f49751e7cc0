# ruff: noqa: E501  (a message is one line, and so is its case)
"""Files, text and `--set` into documents and structs, and the one line that each mistake earns."""

import re
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal, NewType

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta

from sim import yaml_reader
from sim.errors import CatalogError, KvcliffError, ScenarioError
from sim.strict_yaml import YamlDocument, apply_overrides, decode, load_yaml, parse_yaml
from sim.yaml_reader import Mark

Fraction = Annotated[float, Meta(ge=0, lt=1)]
Tokens = NewType("Tokens", int)


class Order(Enum):
    """Which waiting request goes first."""

    FCFS = "fcfs"
    PRIORITY = "priority"


class Poisson(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="poisson"):
    """Arrivals one by one."""

    rate_per_s: Annotated[float, Meta(gt=0)]


class Burst(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="burst"):
    """Arrivals all at once."""

    size: Annotated[int, Meta(ge=1)]


class Tier(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Somewhere to put blocks."""

    size_bytes: Annotated[int, Meta(ge=1)]


class Engine(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"style": "scheduling-style"}):
    """Settings of one engine."""

    block_size: Annotated[int, Meta(ge=1, multiple_of=8)] = 16
    kv_cache_dtype: Literal["auto", "fp8", "fp8_e4m3", "fp8_e5m2"] = "auto"
    max_num_seqs: Annotated[int, Meta(ge=1)] | Literal["auto"] = "auto"
    gpu_memory_utilization: Fraction = 0.9
    prefix_caching: bool = True
    style: Order = Order.FCFS


class Load(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Who asks."""

    sessions: Annotated[list[Annotated[int, Meta(ge=1)]], Meta(min_length=1)]
    arrivals: Poisson | Burst | None = None
    think_time_s: tuple[float, float] = (0.0, 1.0)

    def __post_init__(self) -> None:
        """Refuse a range that runs backwards."""
        if self.think_time_s[0] > self.think_time_s[1]:
            raise ValueError(f"think_time_s {list(self.think_time_s)} must not run backwards")
        if self.sessions == [13]:
            raise ScenarioError("thirteen brings\nbad luck")


class Scenario(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Everything."""

    load: Load
    name: Annotated[str, Meta(max_length=12, pattern="^[a-z]+$")] = "unnamed"
    engine: Engine = Engine()
    tiers: dict[str, Tier] = {}
    prompt_tokens: Tokens | None = None
    replicas: list[Engine] | None = None
    extra: Any = None


GOOD = """\
name: chat
load:
  sessions: [1, 2, 4]
  arrivals: {kind: poisson, rate_per_s: 1e3}
engine: &engine
  kv_cache_dtype: fp8
  scheduling-style: priority
tiers:
  host: {size_bytes: 1_000}
replicas:
- *engine
- <<: *engine
  block_size: 0x20
"""


def message(text: str, into: type = Scenario) -> str:
    """Return the one line that a text earns."""
    with pytest.raises(ScenarioError) as caught:
        decode(parse_yaml(text, "a.yaml"), into)
    line = str(caught.value)
    assert "\n" not in line
    return line


def test_a_good_document_becomes_structs() -> None:
    """Tags, renames, anchors, merges, hex, underscores and 1e3 all arrive."""
    scenario = decode(parse_yaml(GOOD, "a.yaml"), Scenario)
    assert scenario.load == Load(sessions=[1, 2, 4], arrivals=Poisson(rate_per_s=1000.0))
    assert scenario.engine == Engine(kv_cache_dtype="fp8", style=Order.PRIORITY)
    assert scenario.tiers == {"host": Tier(size_bytes=1000)}
    assert scenario.replicas == [
        scenario.engine,
        Engine(kv_cache_dtype="fp8", style=Order.PRIORITY, block_size=32),
    ]


def test_positions_of_keys_and_values_are_kept() -> None:
    """Each path knows the line and column of its key and of its value."""
    document = parse_yaml(GOOD, "a.yaml")
    assert document.place(("load",)).key == Mark(2, 1)
    assert document.place(("load",)).value == Mark(3, 3)
    assert document.place(("load", "sessions", 1)).value == Mark(3, 17)
    assert str(document.place(("load", "nothing", "here"))) == "a.yaml:2"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e3", 1000.0),
        ("1.5e-3", 0.0015),
        ("-1E+2", -100.0),
        (".5", 0.5),
        ("1_000", 1000),
        ("0x10", 16),
        ("on", True),
        ("No", False),
        ("~", None),
        ("", None),
        ("010", "010"),
        ("1:30", "1:30"),
        ("2024-01-01", "2024-01-01"),
        ("1e", "1e"),
        ("'1e3'", "1e3"),
        ("!!str 5", "5"),
        ("<<", "<<"),
    ],
)
def test_plain_scalars(text: str, value: object) -> None:
    """Numbers are numbers, on and off are booleans, and what is ambiguous stays text."""
    found = parse_yaml(f"a: {text}", "a.yaml").data["a"]
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a: [1", r"a.yaml:1:4: did not find expected ',' or ']' while parsing a flow sequence"),
        ("a: 1\n b: 2", r"a.yaml:2:3: mapping values are not allowed .*"),
        (
            "a: 1\n---\nb: 2",
            r"a.yaml:2:1: but found another document expected a single document in the stream",
        ),
        ("a: *b", r"a.yaml:1:4: found undefined alias.*"),
        ("a: é\nb: x\x01", r"a.yaml:2:5: character '\\x01' is not allowed in YAML"),
        ("a: \ud800", r"a.yaml:1:4: character '\\ud800' is not allowed in YAML"),
        ("", r"a.yaml: is empty; expected a mapping of settings"),
        ("# nothing\n", r"a.yaml: is empty; expected a mapping of settings"),
        ("\n- 1", r"a.yaml:2: expected a mapping at the top level, got a list"),
        ("word", r"a.yaml:1: expected a mapping at the top level, got 'word'"),
        ("a: 1\nb:\n  c: 1\n  d: 2\n  c: 3", r"a.yaml:5: b.c is set twice \(first at line 3\)"),
        (
            "a:\n  b: &x\n    c: [*x]",
            r"a.yaml:2: an alias inside this mapping or list refers to the whole of it",
        ),
        ("a: &x\n  <<: *x", r"a.yaml:1: an alias inside this mapping or list refers to the whole of it"),
        ("a: {<<: 3}", r"a.yaml:1: << can only merge a mapping or a list of mappings"),
        ("? [a]\n: b", r"a.yaml:1: a sequence cannot be a key"),
        ("a: !cat 3", r"a.yaml:1: tag '!cat' is not supported"),
        ("a: !!python/tuple [3]", r"a.yaml:1: tag .*python/tuple' is not supported"),
        ("a: !!int x", r"a.yaml:1: 'x' is no int"),
        ("a: !!bool 3", r"a.yaml:1: '3' is no bool"),
        ("a: " + "9" * 5000, r"a.yaml:1: a number of 5000 digits is too long"),
        ("a: " + "[" * 200 + "]" * 200, r"a.yaml:1: is nested deeper than 100 levels"),
    ],
)
def test_what_is_not_plain_yaml_is_one_located_line(text: str, line: str) -> None:
    """Syntax errors carry line and column; other refusals a line."""
    assert re.fullmatch(line, message(text))


def test_aliases_cannot_stand_for_endless_text() -> None:
    """Nine levels of nine aliases are refused, not expanded."""
    text = "a0: &a0 [1]\n" + "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 10))
    assert re.fullmatch(r"a.yaml:\d+: stands for more than 200,000 entries", message(text))


def test_without_libyaml_the_result_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pure-Python loader gives the same data, and errors of the same class."""
    fast = parse_yaml(GOOD, "a.yaml")
    monkeypatch.delattr(yaml, "CSafeLoader", raising=False)
    yaml_reader._loader_class.cache_clear()
    try:
        assert parse_yaml(GOOD, "a.yaml") == fast
        assert message("a: [1").startswith("a.yaml:1:6: ")
        assert message("[" * 5000) == "a.yaml: is nested too deep"
        assert message('a: "\\U00110000"').startswith("a.yaml: ")
    finally:
        yaml_reader._loader_class.cache_clear()


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    """Each says what is wrong with the path, and the nearest file if there is one."""
    (tmp_path / "l4-qwen.yaml").write_text("a: 1")
    (tmp_path / "latin.yaml").write_bytes(b"a: 1\nb: caf\xe9")
    for name, what in [
        ("l4-qwen.yml", ": no such file (did you mean 'l4-qwen.yaml'?)"),
        ("zzz", ": no such file"),
        ("no/l4.yaml", f": no such file, nor a folder {tmp_path / 'no'}"),
        (".", ": is a directory, not a YAML file"),
        ("latin.yaml", ":2: is not UTF-8 text (byte 0xe9)"),
    ]:
        with pytest.raises(ScenarioError) as caught:
            load_yaml(tmp_path / name)
        assert str(caught.value) == f"{tmp_path / name}{what}"
    for name in ("x" * 5000, "nul\0", "l4-qwen.yaml/x"):
        with pytest.raises(CatalogError, match="cannot be read"):
            load_yaml(tmp_path / name, CatalogError)


def test_an_unreadable_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Permission denied is one line too."""

    def refuse(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(ScenarioError, match=r"a\.yaml': cannot be read: Permission denied"):
        load_yaml(tmp_path / "a.yaml")


def test_a_byte_order_mark_is_no_part_of_the_first_key(tmp_path: Path) -> None:
    """Editors on Windows write one."""
    (tmp_path / "a.yaml").write_bytes("a: 1".encode("utf-8-sig"))
    document = load_yaml(str(tmp_path / "a.yaml"))
    assert document.data == {"a": 1}
    assert str(document.place(("a",))) == f"{tmp_path / 'a.yaml'}:1"


LOAD = "load: {sessions: [1]}\n"
FLAGS = "block_size, gpu_memory_utilization, kv_cache_dtype, max_num_seqs, prefix_caching, scheduling-style"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (LOAD + "engin: {}", "2: engin is not a known key (did you mean 'engine'?)"),
        (LOAD + "engine:\n  blok_size: 8", "3: engine.blok_size is not a known key (did you mean 'block_size'?)"),
        (LOAD + "engine: {zz: 8}", f"2: engine.zz is not a known key; valid keys: {FLAGS}"),
        (LOAD + "engine: {style: fcfs}", f"2: engine.style is not a known key; valid keys: {FLAGS}"),
        (LOAD + "engine: {on: 1}", f"2: engine.true is not a known key; valid keys: {FLAGS}"),
        (LOAD + "engine: {null: 1}", f"2: engine.null is not a known key; valid keys: {FLAGS}"),
        (LOAD + "tiers:\n  host: {size: 1}", "3: tiers.host.size is not a known key (did you mean 'size_bytes'?)"),
        (LOAD + "replicas:\n- {}\n- block_sise: 8", "4: replicas[1].block_sise is not a known key (did you mean 'block_size'?)"),
        ("name: a", "1: load is required but missing"),
        ("name: a\nload:\n  think_time_s: [0, 1]", "2: load.sessions is required but missing"),
        (LOAD + "name: 3", "2: name expected text, got 3"),
        (LOAD + "name: off", "2: name expected text, got false (YAML reads a bare yes, no, on or off as true or false: quote it)"),
        (LOAD + "name: A b", "2: name 'A b' must match the pattern '^[a-z]+$'"),
        (LOAD + "name: abcdefghijklm", "2: name 'abcdefghijklm' must have at most 12 characters"),
        (LOAD + "engine: {block_size: abc}", "2: engine.block_size expected a whole number, got 'abc'"),
        (LOAD + "engine: {block_size: 1e1}", "2: engine.block_size expected a whole number, got 10.0"),
        (LOAD + "engine: {block_size: true}", "2: engine.block_size expected a whole number, got true"),
        (LOAD + "engine: {block_size: [8]}", "2: engine.block_size expected a whole number, got a list"),
        (LOAD + "engine: {block_size: }", "2: engine.block_size expected a whole number, got null"),
        (LOAD + "engine: {block_size: 0}", "2: engine.block_size 0 must be >= 1"),
        (LOAD + "engine: {block_size: 12}", "2: engine.block_size 12 must be a multiple of 8"),
        (LOAD + "engine: {gpu_memory_utilization: 1}", "2: engine.gpu_memory_utilization 1 must be < 1"),
        (LOAD + "engine: {gpu_memory_utilization: yes}", "2: engine.gpu_memory_utilization expected a number, got true"),
        (LOAD + "engine: {gpu_memory_utilization: .nan}", "2: engine.gpu_memory_utilization nan must be a finite number"),
        (LOAD + "engine: {gpu_memory_utilization: 1e999}", "2: engine.gpu_memory_utilization inf must be a finite number"),
        (LOAD + "extra: {a: [-.inf]}", "2: extra.a[0] -inf must be a finite number"),
        (LOAD + "engine: {prefix_caching: 1}", "2: engine.prefix_caching expected true or false, got 1"),
        (LOAD + "engine: {kv_cache_dtype: fp9}", "2: engine.kv_cache_dtype 'fp9' is not one of auto, fp8, fp8_e4m3, fp8_e5m2 (did you mean 'fp8'?)"),
        (LOAD + "engine: {kv_cache_dtype: 8}", "2: engine.kv_cache_dtype 8 is not one of auto, fp8, fp8_e4m3, fp8_e5m2 (did you mean 'fp8'?)"),
        (LOAD + "engine: {scheduling-style: fifo}", "2: engine.scheduling-style 'fifo' is not one of fcfs, priority (did you mean 'fcfs'?)"),
        (LOAD + "engine: {max_num_seqs: 0}", "2: engine.max_num_seqs 0 must be >= 1"),
        (LOAD + "engine: {max_num_seqs: aut}", "2: engine.max_num_seqs expected a whole number or 'auto', got 'aut' (did you mean 'auto'?)"),
        (LOAD + "engine: fast", "2: engine expected a mapping, got 'fast'"),
        (LOAD + "tiers: [1]", "2: tiers expected a mapping, got a list"),
        (LOAD + "tiers: {1: {size_bytes: 1}}", "2: tiers[1] is no valid key: expected text, got 1"),
        (LOAD + "tiers:\n  host:\n    size_bytes: 0", "4: tiers.host.size_bytes 0 must be >= 1"),
        (LOAD + "prompt_tokens: few", "2: prompt_tokens expected a whole number or null, got 'few'"),
        ("load:\n  sessions:\n  - 1\n  - 0", "4: load.sessions[1] 0 must be >= 1"),
        ("load: {sessions: []}", "1: load.sessions must have at least 1 item"),
        ("load: {sessions: 4}", "1: load.sessions expected a list, got 4"),
        ("load: {sessions: [1], think_time_s: [1, x]}", "1: load.think_time_s[1] expected a number, got 'x'"),
        ("load: {sessions: [1], think_time_s: [1]}", "1: load.think_time_s must have 2 items, not 1"),
        ("load: {sessions: [1], think_time_s: [2, 1]}", "1: load: think_time_s [2.0, 1.0] must not run backwards"),
        ("name: a\nload: {sessions: [13]}", "2: load: thirteen brings bad luck"),
        ("load:\n  sessions: [1]\n  arrivals:\n    kind: poison", "4: load.arrivals.kind 'poison' is not one of burst, poisson (did you mean 'poisson'?)"),
        ("load: {sessions: [1], arrivals: {rate_per_s: 1}}", "1: load.arrivals.kind is required but missing: one of burst, poisson"),
        ("load: {sessions: [1], arrivals: {kind: [1]}}", "1: load.arrivals.kind a list is not one of burst, poisson"),
        ("load: {sessions: [1], arrivals: {kind: poisson, rate_per_s: 0}}", "1: load.arrivals.rate_per_s 0 must be > 0"),
        ("load: {sessions: [1], arrivals: {kind: burst, rate_per_s: 1}}", "1: load.arrivals.rate_per_s is not a known key; valid keys: kind, size"),
        ("load: {sessions: [1], arrivals: now}", "1: load.arrivals expected a mapping or null, got 'now'"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_one_located_line(text: str, line: str) -> None:
    """Place, key, value, rule and the nearest valid name, for the first mistake."""
    assert message(text) == f"a.yaml:{line}"


def test_a_tagged_struct_on_its_own() -> None:
    """The tag may be left out where only one is possible, but must not be another."""
    assert decode(parse_yaml("rate_per_s: 2", "a.yaml"), Poisson) == Poisson(rate_per_s=2)
    assert message("kind: burst\nrate_per_s: 2", Poisson) == "a.yaml:1: kind 'burst' is not one of poisson"


def test_the_error_class_is_the_callers() -> None:
    """A catalog reports catalog errors."""
    with pytest.raises(CatalogError):
        decode(parse_yaml("a: 1", "a.yaml", CatalogError), Scenario, CatalogError)
    with pytest.raises(CatalogError):
        parse_yaml("[", "a.yaml", CatalogError)


def overridden(*overrides: str) -> YamlDocument:
    """Return the good document with overrides."""
    return apply_overrides(parse_yaml(GOOD, "a.yaml"), overrides)


def test_overrides_replace_and_create() -> None:
    """Values are YAML, lists are indexed, missing mappings are made, the original stays."""
    document = parse_yaml(GOOD, "a.yaml")
    changed = apply_overrides(
        document,
        ["engine.block_size=32", "load.sessions=[8, 9]", "load.sessions.0=7", "load.sessions[1]=1", "tiers.disk.size_bytes=5"],
    )  # fmt: skip
    scenario = decode(changed, Scenario)
    assert scenario.engine.block_size == 32
    assert scenario.load.sessions == [7, 1]
    assert scenario.tiers["disk"] == Tier(size_bytes=5)
    assert document == parse_yaml(GOOD, "a.yaml")


def test_an_override_reaches_whole_number_keys() -> None:
    """A table by batch size can be overridden too."""
    document = apply_overrides(parse_yaml("a: {8: 1}", "a.yaml"), ["a.8=2", "a.9=3"])
    assert document.data == {"a": {8: 2, "9": 3}}


@pytest.mark.parametrize(
    ("override", "line"),
    [
        ("engine.kv_cache_dtype=fp9", "engine.kv_cache_dtype: engine.kv_cache_dtype 'fp9' is not one of auto, fp8, fp8_e4m3, fp8_e5m2 (did you mean 'fp8'?)"),
        ("engin.block_size=8", "engin.block_size: engin is not a known key (did you mean 'engine'?)"),
        ("load.sessions=[1, 0]", "load.sessions: load.sessions[1] 0 must be >= 1"),
        ("load.sessions=[1", "load.sessions: did not find expected ',' or ']' while parsing a flow sequence"),
        ("load.sessions.7=1", "load.sessions.7: load.sessions has 3 items, no item '7'"),
        ("load.sessions.x=1", "load.sessions.x: load.sessions has 3 items, no item 'x'"),
        ("name.x=1", "name.x: name is 'chat' and holds no key 'x'"),
        ("engine={a: 1, a: 2}", "engine: a is set twice"),
        ("engine.block_size", "'engine.block_size': expected key.path=value, such as engine.block_size=16"),
        ("=1", "'=1': expected key.path=value, such as engine.block_size=16"),
        ("a..b=1", "'a..b=1': expected key.path=value, such as engine.block_size=16"),
        ("a\nb=1", "'a\\nb=1': expected key.path=value, such as engine.block_size=16"),
    ],
)  # fmt: skip
def test_a_wrong_override_says_which(override: str, line: str) -> None:
    """The place is the override itself."""
    with pytest.raises(ScenarioError) as caught:
        decode(overridden(override), Scenario)
    assert str(caught.value) == f"--set {line}"


@given(st.data())
def test_a_key_one_edit_away_is_recognised(data: st.DataObject) -> None:
    """Whatever letter is lost, added or replaced, the valid name is suggested."""
    fields = ["block_size", "kv_cache_dtype", "max_num_seqs", "gpu_memory_utilization", "prefix_caching"]
    name = data.draw(st.sampled_from(fields))
    at = data.draw(st.integers(0, len(name) - 1))
    letter = data.draw(st.sampled_from("abcdefghijklmnopqrstuvwxyz_"))
    rest = data.draw(st.sampled_from([name[at + 1 :], letter + name[at:], letter + name[at + 1 :]]))
    if (typo := name[:at] + rest) != name:
        line = message(f"load: {{sessions: [1]}}\nengine: {{'{typo}': 1}}")
        assert line == f"a.yaml:2: engine.{typo} is not a known key (did you mean {name!r}?)"


YAML_PIECES = st.lists(
    st.sampled_from(
        [*"abe:-?&*!|>%@`'\"[]{},#\n\t ~<=.0123", ": ", "- ", "\n  ", "&a ", "*a", "<<: ", "!!int ", "1e3", ".nan", "---\n", "load", "engine"]
    ),
    max_size=40,
).map("".join)  # fmt: skip


@given(st.one_of(YAML_PIECES, st.text(st.characters(), max_size=40)))
def test_no_text_ends_in_a_traceback(text: str) -> None:
    """Any text is a document that decodes, or one line of our own error."""
    try:
        decode(apply_overrides(parse_yaml(text, "a.yaml"), [text]), Scenario)
    except KvcliffError as error:
        assert len(str(error).splitlines()) == 1  # noqa: PT017  (most texts fail, some may not)


@given(st.binary(max_size=40))
def test_no_file_ends_in_a_traceback(tmp_path_factory: pytest.TempPathFactory, raw: bytes) -> None:
    """Nor do any bytes."""
    path = tmp_path_factory.getbasetemp() / "fuzz.yaml"
    path.write_bytes(raw)
    try:
        load_yaml(path)
    except ScenarioError as error:
        assert len(str(error).splitlines()) == 1  # noqa: PT017
