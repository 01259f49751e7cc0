"""Every recorded decision of the real vLLM scheduler is made again, in the same order, with the same blocks.

Each recording is followed twice: with block numbers, request by request, and without, by the decode group.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from sim.scheduling.replay import decode_scenario, replay

RECORDINGS = Path(__file__).parents[4] / "shared" / "data" / "vllm_scheduler_golden"
OWN = Path(__file__).parent / "data"
SUFFIX = ".scenario.json"


def scenarios(folder: Path) -> list[Path]:
    """All scenarios of a folder, by name."""
    return sorted(folder.glob(f"*{SUFFIX}"))


def parametrised(folder: Path) -> list[Any]:
    """Parametrise over a folder, with one skipped case where it is absent."""
    found = [pytest.param(path, id=path.name.removesuffix(SUFFIX)) for path in scenarios(folder)]
    absent = pytest.mark.skip(reason=f"no recordings at {folder}")
    return found or [pytest.param(None, id="absent", marks=absent)]


def assert_same_decisions(path: Path, *, numbered: bool) -> None:
    """Compare line by line as parsed JSON, the order of keys included; block numbers where both have them."""
    scenario = json.loads(path.read_bytes())
    both = numbered and scenario.get("record_block_ids", False)
    changed = json.dumps(scenario | {"record_block_ids": numbered}).encode()
    golden = path.with_name(path.name.replace(SUFFIX, ".golden.jsonl"))
    ours = list(replay(decode_scenario(changed, str(path)), str(path)))
    recorded = [json.loads(line) for line in golden.read_text().splitlines()]
    ours, recorded = (
        [json.dumps({key: value for key, value in record.items() if both or key != "blocks"}) for record in records]
        for records in (ours, recorded)
    )
    for line, (mine, theirs) in enumerate(zip(ours, recorded, strict=False), start=1):
        assert mine == theirs, f"{golden}:{line}"
    assert len(ours) == len(recorded)


@pytest.mark.parametrize("numbered", [True, False], ids=["one by one", "group"])
@pytest.mark.parametrize("path", parametrised(RECORDINGS))
def test_recorded_vllm_decisions_are_reproduced(path: Path, *, numbered: bool) -> None:
    """Each of vLLM 0.32.0's recordings, header to summary."""
    assert_same_decisions(path, numbered=numbered)


@pytest.mark.parametrize("numbered", [True, False], ids=["one by one", "group"])
@pytest.mark.parametrize("path", parametrised(OWN))
def test_our_own_recordings_are_reproduced(path: Path, *, numbered: bool) -> None:
    """Always there: `by_hand` was worked out with pencil and paper, the others are vLLM 0.32.0's own decisions."""
    assert_same_decisions(path, numbered=numbered)


@pytest.mark.skipif(not RECORDINGS.is_dir(), reason=f"no recordings at {RECORDINGS}")
def test_all_27_recordings_are_replayed() -> None:
    """A missing file would pass unnoticed otherwise."""
    assert len(scenarios(RECORDINGS)) == 27
