"""ServeGen's clients: rates and lengths of each window come out as they are given."""

import ast
import csv
import json
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pytest
from trace_requests import SAMPLES, needs_samples, opened, read

from workloads.errors import WorkloadError
from workloads.traces.gap_windows import arrivals_s
from workloads.traces.literal_tables import weight_table

CHUNKS = ["language/m-small/chunk-0", "language/m-large/chunk-9", "reason/deepseek-r1/chunk-0"]


def write_client(folder: Path, trace: str, dataset: object, number: int = 0) -> Path:
    """Write a client's two files, and return its trace file."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"chunk-{number}-dataset.json").write_text(dataset if isinstance(dataset, str) else json.dumps(dataset))
    path = folder / f"chunk-{number}-trace.csv"
    path.write_text(trace)
    return path


LENGTHS = {"0": {"input_tokens": "{100: 0.5, 300: 0.5}", "output_tokens": "{10: 1.0}"}}
TRACE = "0,0.5,1,Gamma,1,2\n600,0,0,,0,0\n1200,2,1,Weibull,1,0.5\n"


@needs_samples
@pytest.mark.parametrize("chunk", CHUNKS)
def test_rates_of_each_window_are_reproduced(chunk: str) -> None:
    """Every window with lengths has as many requests as its rate says; the rates are recorded counts over 600 s."""
    trace, dataset = SAMPLES / "servegen" / f"{chunk}-trace.csv", SAMPLES / "servegen" / f"{chunk}-dataset.json"
    with trace.open() as file:
        rates = {float(row[0]): float(row[1]) for row in csv.reader(file)}
    empty = {int(start) for start, fields in json.loads(dataset.read_text()).items() if "{}" in fields.values()}
    requests = read(trace)
    counted = Counter(int((one.at_s or 0.0) // 600) * 600 for one in requests)
    expected = {int(at): rate * 600 for at, rate in rates.items() if int(at) // 21600 * 21600 not in empty}
    assert all(abs(counted[at] - count) < 1 for at, count in expected.items())
    assert sum(counted.values()) == pytest.approx(sum(expected.values()), abs=1)
    times = [one.at_s or 0.0 for one in requests]
    assert times == sorted(times)


@needs_samples
@pytest.mark.parametrize("chunk", CHUNKS)
def test_mean_lengths_are_reproduced(chunk: str) -> None:
    """Against the tables themselves, window by window: within five standard errors."""
    dataset = json.loads((SAMPLES / "servegen" / f"{chunk}-dataset.json").read_text())
    windows = defaultdict(list)
    for request in read(SAMPLES / "servegen" / f"{chunk}-dataset.json"):
        windows[int((request.at_s or 0.0) // 21600) * 21600].append(request)
    checked = 0
    for start, fields in dataset.items():
        drawn = windows[int(start)]
        if len(drawn) < 100:
            continue
        for key, values in (
            ("input_tokens", [one.prompt_tokens for one in drawn]),
            ("output_tokens", [one.output_tokens for one in drawn]),
        ):
            table = ast.literal_eval(fields[key])
            total = sum(table.values())
            mean = sum(max(value, 1) * weight for value, weight in table.items()) / total
            spread = sum((value - mean) ** 2 * weight for value, weight in table.items()) / total
            assert np.mean(values) == pytest.approx(mean, abs=5 * (spread / len(drawn)) ** 0.5 + 1e-9)
            checked += 1
    assert checked > 2


@needs_samples
def test_either_file_of_a_pair_and_a_folder_are_the_trace() -> None:
    """Whatever the user has at hand."""
    folder = SAMPLES / "servegen" / "reason" / "deepseek-r1"
    whole = read(folder)
    assert whole == read(folder / "chunk-0-trace.csv") == read(folder / "chunk-0-dataset.json")
    assert {opened(path).format.name for path in (folder, *folder.iterdir())} == {"servegen"}
    trace = opened(SAMPLES / "servegen")
    assert len(list(trace)) > len(whole)
    assert any("3 models at once" in note for note in trace.notes)


def test_seeds_change_the_draw_and_nothing_else(tmp_path: Path) -> None:
    """The same seed gives the same requests."""
    path = write_client(tmp_path, TRACE, LENGTHS)
    assert read(path, seed=3) == read(path, seed=3)
    assert read(path, seed=3) != read(path, seed=4)
    assert len(read(path, seed=3)) == len(read(path, seed=4)) == 300 + 1200


def test_windows_without_lengths_are_left_out_and_noted(tmp_path: Path) -> None:
    """A recording may have a rate where it has no lengths."""
    path = write_client(tmp_path, TRACE + "21600,1,1,Gamma,1,1\n", {**LENGTHS, "21600": {"input_tokens": "{}"}})
    trace = opened(path)
    assert len(list(trace)) == 1500
    assert any("without lengths" in note for note in trace.notes)


def test_clients_of_a_folder_are_merged_by_time(tmp_path: Path) -> None:
    """Each in its own window, all in one order; media add their tokens."""
    write_client(tmp_path, TRACE, LENGTHS)
    media = {
        "0": {"text_tokens": "{5: 1}", "image_count": "{2: 1}", "image_tokens": "{50: 1}", "output_tokens": "{0: 1}"}
    }
    write_client(tmp_path, "0,1,1,Gamma,1,2\n", media, 1)
    requests = read(tmp_path)
    times = [one.at_s or 0.0 for one in requests]
    assert times == sorted(times)
    assert len(times) == 1500 + 600
    assert sum(one.prompt_tokens == 105 and one.output_tokens == 1 for one in requests) == 600


@pytest.mark.parametrize("shape", [1e-6, 0.0223, 1.0, 50.0])
@pytest.mark.parametrize("kind", ["Gamma", "Weibull"])
def test_arrivals_stay_inside_their_window(kind: str, shape: float) -> None:
    """Whatever the shape, even where every gap but one is nothing."""
    times = arrivals_s(np.random.default_rng(1), kind, shape, 200, 600.0)
    assert len(times) == 200
    assert np.all(np.diff(times) >= 0)
    assert times[0] >= 0
    assert times[-1] < 600


def test_burstiness_follows_the_shape() -> None:
    """The coefficient of variation of Gamma gaps is the shape's inverse root."""
    gaps = np.diff(arrivals_s(np.random.default_rng(1), "Gamma", 0.25, 100_000, 600.0))
    assert gaps.std() / gaps.mean() == pytest.approx(2.0, rel=0.05)


@pytest.mark.parametrize(
    ("trace", "message"),
    [
        ("0,-1,1,Gamma,1,1\n", "-trace.csv:1: rate '-1' must be a number from 0"),
        ("0,nan,1,Gamma,1,1\n", "-trace.csv:1: rate 'nan' must be"),
        ("0,1e9,1,Gamma,1,1\n", "-trace.csv:1: rate '1e9' must be a number from 0 to 10,000"),
        ("0,1,1,Gama,1,1\n", "-trace.csv:1: pattern 'Gama' is not one of Gamma, Weibull"),
        ("0,1,1,Gamma,0,1\n", "-trace.csv:1: shape '0' of Gamma must be above 0"),
        ("0,1,1,Gamma\n", "-trace.csv:1: 4 cells, where 6 are expected"),
        ("0,1,1,Gamma,1,1\n0,1,1,Gamma,1,1\n", "-trace.csv:2: a second window at 0 s"),
        ("x,1,1,Gamma,1,1\n", "-trace.csv:1: start_s 'x' must be a time"),
        ("", "-trace.csv: the file is empty"),
        ("\0\0", "this is no text but a binary file"),
    ],
)
def test_bad_windows_are_named(tmp_path: Path, trace: str, message: str) -> None:
    """File, row, column, value and rule."""
    path = write_client(tmp_path, trace, LENGTHS)
    with pytest.raises(WorkloadError) as raised:
        read(path)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("dataset", "message"),
    [
        ({"0": {"input_tokens": "{1: 1}", "output_tokens": "__import__('os')"}}, "0.output_tokens: no literal of"),
        ({"0": {"input_tokens": "{1: 1}", "output_tokens": "{" * 100_000}}, "0.output_tokens: no literal of"),
        ({"0": {"input_tokens": "{1: 9**9**9}", "output_tokens": "{}"}}, "0.input_tokens: no literal of"),
        ({"0": {"input_tokens": "{1, 2}", "output_tokens": "{}"}}, "0.input_tokens: no literal of"),
        ({"0": {"input_tokens": "{-4: 1}", "output_tokens": "{}"}}, "0.input_tokens: number -4 must be from 0"),
        ({"0": {"input_tokens": "{99999999999: 1}", "output_tokens": "{}"}}, "0.input_tokens: number 99999999999 must"),
        ({"0": {"input_tokens": "{4: -1}", "output_tokens": "{}"}}, "0.input_tokens: probability -1 must be"),
        ({"0": {"input_tokens": "{4: 1e999}", "output_tokens": "{}"}}, "0.input_tokens: probability inf must be"),
        ({"0": {"input_tokens": "{4: 0}", "output_tokens": "{}"}}, "0.input_tokens: probabilities sum to 0"),
        ({"0": {"input_tokens": "{4: 1}", "output_tokens": f"{{1: 1{' ' * 2**20}}}"}}, "a literal of more than"),
        ({"x": {}}, "window 'x' must begin at a whole number of seconds"),
        ({"0": {"input_tokens": 5}}, "expected str, got int"),
        ({"0": None}, "expected object, got null"),
        ("[" * 100_000, "expected object, got array"),
        ("{", "no JSON, or cut short"),
    ],
)
def test_bad_datasets_are_named(tmp_path: Path, dataset: object, message: str) -> None:
    """Nothing in a literal is evaluated, or parsed deep."""
    path = write_client(tmp_path, TRACE, dataset)
    with pytest.raises(WorkloadError) as raised:
        read(path)
    assert "chunk-0-dataset.json" in str(raised.value)
    assert message in str(raised.value)


def test_half_a_pair_is_refused(tmp_path: Path) -> None:
    """By the name of the half that is missing."""
    path = write_client(tmp_path, TRACE, LENGTHS)
    path.unlink()
    with pytest.raises(WorkloadError, match=r"chunk-0-trace.csv: this half"):
        read(tmp_path / "chunk-0-dataset.json")


def test_bad_windows_are_counted_where_asked(tmp_path: Path) -> None:
    """The others are drawn."""
    trace = opened(write_client(tmp_path, TRACE + "x\n", LENGTHS), skip_bad_rows=True)
    assert len(list(trace)) == 1500
    assert trace.bad_rows == 1


def test_a_table_is_normalised() -> None:
    """Weights need not sum to 1."""
    table = weight_table("{10: 1, 30: 3}", 100)
    assert table is not None
    assert table.mean == pytest.approx(25)
    assert weight_table("{}", 100) is None
    for text in ("{10: .25, 30: .75,}", " {10 : 1, 30: 3.0e0}", "{10: 9, 10: 1, 30: 3}"):
        other = weight_table(text, 100)
        assert other is not None
        assert other.below.tolist() == table.below.tolist()
