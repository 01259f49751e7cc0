"""What the code around a GPU decides, with stand-ins for CUDA: the kernels themselves run where there is a GPU."""

import subprocess
from collections.abc import Callable
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")

from calibrate.timing import conditions, samplers  # noqa: E402
from calibrate.timing.cases import Case  # noqa: E402
from calibrate.timing.machine import Machine, open_machine  # noqa: E402
from sim.catalog import load_gpu  # noqa: E402
from sim.errors import CalibrationError  # noqa: E402


class Device:
    """Counts calls and takes `call_s` for each."""

    def __init__(self, call_s: float) -> None:
        self.call_s = call_s
        self.copies: list[int] = []

    def call(self, copy: int) -> None:
        """Run on one copy."""
        self.copies.append(copy)

    def event_s(self, run: Callable[[], object]) -> float:
        """Return the time of the calls `run` makes."""
        before = len(self.copies)
        run()
        return (len(self.copies) - before) * self.call_s


def stand_in(monkeypatch: pytest.MonkeyPatch, device: Device, fault: Exception | None = None) -> None:
    """Put the device in CUDA's place; capturing a graph fails with `fault` where there is one."""

    def captured(run: Callable[[], object]) -> SimpleNamespace:
        if fault is not None:
            raise fault
        return SimpleNamespace(replay=run)

    monkeypatch.setattr(samplers, "event_s", device.event_s)
    monkeypatch.setattr(samplers, "captured", captured)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)


def test_short_calls_share_a_graph_that_visits_every_copy_equally(monkeypatch: pytest.MonkeyPatch) -> None:
    """A graph is long against its launch, and no copy comes back sooner than the others allow."""
    device = Device(5e-6)
    stand_in(monkeypatch, device)
    taken = samplers.sampler(Case(device.call, copies=7), "cuda")
    device.copies.clear()
    assert taken.sample() == pytest.approx(5e-6)
    assert taken.graph == "cuda_graph"
    assert len(device.copies) * 5e-6 >= 1e-3
    assert len({device.copies.count(copy) for copy in range(7)}) == 1


def test_long_calls_are_launched_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A millisecond hides the launch; copies still take turns."""
    device = Device(2e-3)
    stand_in(monkeypatch, device)
    taken = samplers.sampler(Case(device.call, copies=2), "cuda")
    device.copies.clear()
    assert [taken.sample(), taken.sample()] == [2e-3, 2e-3]
    assert (taken.graph, sorted(device.copies)) == ("eager", [0, 1])


def test_what_no_graph_can_hold_is_timed_without_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that waits for the host is still timed; running out of memory is not taken for that."""
    device = Device(5e-6)
    stand_in(monkeypatch, device, RuntimeError("operation not permitted when stream is capturing"))
    taken = samplers.sampler(Case(device.call), "cuda")
    assert (taken.graph, taken.note) == ("eager", "no graph: it waits")
    assert taken.sample() == pytest.approx(5e-6)
    stand_in(monkeypatch, device, torch.OutOfMemoryError("CUDA out of memory"))
    with pytest.raises(torch.OutOfMemoryError):
        samplers.sampler(Case(device.call), "cuda")


def card(monkeypatch: pytest.MonkeyPatch, name: str, major: int, minor: int) -> None:
    """Let torch see one card."""
    properties = SimpleNamespace(
        name=name, major=major, minor=minor, L2_cache_size=48 * 2**20, multi_processor_count=58, uuid="0-1"
    )
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: properties)


def test_a_card_is_described_by_its_catalog_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Name, cache and whether it multiplies fp8."""
    card(monkeypatch, "NVIDIA L4", 8, 9)
    machine = open_machine("cuda", "bf16")
    assert (machine.name, machine.gpu, machine.has_fp8) == ("L4", load_gpu("L4"), True)
    assert machine.cache_bytes == 48 * 2**20
    card(monkeypatch, "NVIDIA Unheard Of", 8, 0)
    machine = open_machine("cuda", "bf16")
    assert (machine.name, machine.gpu, machine.has_fp8) == ("NVIDIA Unheard Of", None, False)


def test_a_card_without_bf16_asks_for_fp16(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line instead of numbers of an emulation."""
    card(monkeypatch, "Tesla T4", 7, 5)
    with pytest.raises(CalibrationError, match="Tesla T4 has no bf16; use --dtype fp16"):
        open_machine("cuda", "bf16")
    assert open_machine("cuda", "fp16").name == "T4"


def test_clocks_and_power_are_read_at_most_every_ten_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows say what the card ran at; asking it each time would slow what is timed."""
    card(monkeypatch, "NVIDIA L4", 8, 9)
    asked = []

    def answer(query: list[str], **_: object) -> SimpleNamespace:
        asked.append(query)
        return SimpleNamespace(stdout="1755 MHz, 71.30 W\n")

    monkeypatch.setattr(conditions.shutil, "which", lambda _: "/usr/bin/nvidia-smi")
    monkeypatch.setattr(subprocess, "run", answer)
    times = iter([0.0, 0.0, 5.0, 11.0, 11.0])
    note = conditions.clock_note(Machine("cuda", "L4", None, 1, (8, 9), "torch"), lambda: next(times))
    assert [note(), note(), note()] == ["clocks.sm 1755 MHz, power.draw 71.30 W"] * 3
    assert len(asked) == 2
    assert "--id=GPU-0-1" in asked[0]


def test_a_machine_without_nvidia_smi_has_no_clocks_to_note(monkeypatch: pytest.MonkeyPatch) -> None:
    """Missing or failing, it costs the note and nothing else."""
    card(monkeypatch, "NVIDIA L4", 8, 9)
    machine = Machine("cuda", "L4", None, 1, (8, 9), "torch")
    monkeypatch.setattr(conditions.shutil, "which", lambda _: None)
    assert conditions.clock_note(machine)() == ""
    monkeypatch.setattr(conditions.shutil, "which", lambda _: "/nonexistent/nvidia-smi")
    assert conditions.clock_note(machine)() == ""
    assert "driver_version" not in conditions.conditions(machine, "kvcliff calibrate")
