"""The tables of flags agree with the fields they fill and with themselves."""

from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.serve_command import ServeCommand, Speculative
from sim.serve_command.environment import VARIABLES
from sim.serve_command.flags import FlagTable, within
from sim.serve_command.sglang_flags import SGLANG
from sim.serve_command.vllm_flags import VLLM

INNER = {"config", "device_ids", "cuda_graph_sizes", ""}  # settings that become others
FIELDS = {field.name for field in fields(ServeCommand)}
SPECULATIVE = {f"speculative.{field.name}" for field in fields(Speculative)}


@pytest.mark.parametrize("table", [VLLM, SGLANG], ids=["vllm", "sglang"])
def test_every_setting_is_a_field(table: FlagTable) -> None:
    """Also those of JSON flags."""
    flags = [*table.flags, *(entry for flag in table.flags for entry in (flag.keys or {}).values())]
    targets = {flag.target for flag in flags if flag.target is not None}
    assert targets - INNER - FIELDS - SPECULATIVE <= {"hf_overrides.rope_scaling", "hf_overrides.rope_theta"}


def test_every_field_is_given_by_some_flag_or_variable() -> None:
    """No field is there for nothing."""
    given = {target.split(".")[0] for _, target in VARIABLES.values()}
    for table in (VLLM, SGLANG):
        for flag in table.flags:
            given |= {entry.target for entry in (flag.keys or {}).values() if entry.target} | {flag.target or ""}
    given = {target.split(".")[0] for target in given}
    assert FIELDS - given == {"engine", "engine_version", "ignored", "notes"}


@pytest.mark.parametrize("table", [VLLM, SGLANG], ids=["vllm", "sglang"])
def test_every_known_name_is_found_as_itself(table: FlagTable) -> None:
    """No name is hidden by a beginning of another."""
    for name, match in table.matches.items():
        assert table.find(name) is match


def edits(one: str, other: str) -> int:
    """Return the least number of edits, by the whole table: letters put in, left out, replaced, neighbours swapped."""
    rows = [[max(i, j) if not i or not j else 0 for j in range(len(other) + 1)] for i in range(len(one) + 1)]
    for i in range(1, len(one) + 1):
        for j in range(1, len(other) + 1):
            rows[i][j] = min(rows[i - 1][j] + 1, rows[i][j - 1] + 1, rows[i - 1][j - 1] + (one[i - 1] != other[j - 1]))
            if i > 1 and j > 1 and one[i - 2 : i] == other[j - 2 : j][::-1]:
                rows[i][j] = min(rows[i][j], rows[i - 2][j - 2] + 1)
    return rows[-1][-1]


@given(st.text("ab-", max_size=7), st.text("ab-", max_size=7), st.integers(0, 3))
def test_nearness_is_the_number_of_edits(one: str, other: str, most: int) -> None:
    """Against the table of all prefixes."""
    assert within(one, other, most) == (edits(one, other) <= most)
