"""Costs around the forward pass: stretches stay exact, and each term moves what it should and by how much."""

from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_scenario import SMALL
from strategies import cases

from sim.catalog import load_gpu, load_model
from sim.engine.record import Run
from sim.engine.simulation import simulate
from sim.errors import ProfileError, ScenarioError
from sim.report.sentences import cost_sources
from sim.scenario import Scenario
from sim.scheduling.continuous import ContinuousScheduler
from sim.setup import Deployment, deploy
from sim.steptime.ahead import Stretch, ends_one_by_one
from sim.steptime.batch import BatchShape
from sim.steptime.costed import costed
from sim.steptime.costs import Costs
from sim.steptime.cuda_graphs import captured_tokens
from sim.steptime.model import StepTimeModel
from sim.steptime.pricing import Engine, load_any, step_times
from sim.steptime.profile import SHIPPED
from sim.strict_yaml import YamlDocument, apply_overrides, decode, load_yaml

KERNELS, GRAPHS = 400, 128


@cache
def _steps() -> StepTimeModel:
    return step_times("8gb-class", load_gpu("RTX 4060 Ti 8GB"), load_model("Qwen3-1.7B"), Engine(max_num_seqs=64)).steps


def _costed(costs: Costs, *, async_scheduling: bool = True) -> Any:
    return costed(_steps(), costs, kernels=KERNELS, cuda_graph_tokens=GRAPHS, async_scheduling=async_scheduling)


@pytest.mark.parametrize(
    ("tokens", "captured"),
    [
        (1, 1),
        (2, 2),
        (3, 4),
        (4, 4),
        (5, 8),
        (8, 8),
        (9, 16),
        (248, 248),
        (249, 256),
        (256, 256),
        (257, 272),
        (512, 512),
    ],
)
def test_steps_run_in_the_next_captured_size(tokens: int, captured: int) -> None:
    """VLLM's list: 1, 2, 4, then by 8 below 256, then by 16."""
    assert captured_tokens(tokens, 512) == captured
    assert captured_tokens(tokens, tokens - 1) is None


def test_no_costs_are_no_prices_of_their_own() -> None:
    """The model itself comes back, so nothing is slower."""
    steps = _steps()
    assert costed(steps, Costs(), kernels=KERNELS, cuda_graph_tokens=GRAPHS, async_scheduling=True) is steps
    shares = Costs(penalised_share=0.5, structured_share=0.5, round_trip_s=1)
    assert costed(steps, shares, kernels=KERNELS, cuda_graph_tokens=GRAPHS, async_scheduling=True) is steps


@settings(max_examples=cases(60), deadline=None)
@given(
    rows=st.integers(1, 200),
    kv=st.integers(1, 100_000),
    scanned=st.integers(0, 5000),
    penalised=st.integers(0, 5),
    structured=st.integers(0, 5),
    more=st.integers(0, 1),
    until_s=st.floats(0.0, 1.0),
    terms=st.fixed_dictionaries(
        {
            name: st.sampled_from([0.0, value])
            for name, value in {
                "host_step_s": 0.02,
                "host_sequence_s": 1e-4,
                "eager_kernel_s": 1e-6,
                "sampling_sequence_s": 1e-5,
                "penalty_token_s": 1e-6,
                "structured_step_s": 1e-3,
                "structured_sequence_s": 1e-4,
            }.items()
        }
    ),
    pads=st.booleans(),
    is_async=st.booleans(),
)
def test_a_stretch_is_its_steps_one_by_one(
    rows: int, kv: int, terms: dict[str, float], *, pads: bool, is_async: bool, **drawn: Any
) -> None:
    """Bit for bit, whatever the costs."""
    costs = Costs(**terms, pads_to_cuda_graphs=pads, penalised_share=1, structured_share=1)
    prices = _costed(costs, async_scheduling=is_async)
    stretch = Stretch(rows, kv, 0.0, 0.25, drawn["until_s"], 40, drawn["more"])
    stretch.penalised_rows = drawn["penalised"]
    stretch.scanned_tokens = drawn["scanned"] if drawn["penalised"] else 0
    stretch.structured_rows = drawn["structured"]
    assert prices.ends_s(stretch) == ends_one_by_one(prices.seconds, stretch)


def test_each_term_costs_what_it_says() -> None:
    """By a decode step of ten rows, and a prefill."""
    decode, plain = BatchShape(10, 10, 0.0, 10, 5000), _steps().seconds(BatchShape(10, 10, 0.0, 10, 5000))

    def more(shape: BatchShape = decode, *, is_async: bool = True, **terms: Any) -> float:
        return float(_costed(Costs(**terms), async_scheduling=is_async).seconds(shape)) - _steps().seconds(shape)

    assert more(host_step_s=0.001, host_sequence_s=1e-4, is_async=False) == pytest.approx(0.002)
    assert more(host_step_s=0.001, host_sequence_s=1e-4) == 0  # hidden behind the GPU
    assert more(host_step_s=0.03, host_sequence_s=1e-3) == pytest.approx(0.04 - plain)
    assert more(sampling_sequence_s=1e-4) == pytest.approx(0.001)
    assert more(decode._replace(scanned_tokens=700), penalty_token_s=1e-6, penalised_share=1) == pytest.approx(7e-4)
    structured = decode._replace(structured_rows=3)
    assert more(structured, structured_step_s=1e-3, structured_sequence_s=1e-4, structured_share=1) == pytest.approx(
        1.3e-3
    )
    assert more(decode._replace(hashed_tokens=2048), hashing_token_s=1.5e-6) == pytest.approx(2048 * 1.5e-6)
    assert more(eager_kernel_s=1e-6) == 0  # a graph holds ten rows
    long = BatchShape(2048, 1, 2048 * 2049 / 2, 0, 0, 0.0, True, 2048)
    assert more(long, eager_kernel_s=1e-6) == pytest.approx(KERNELS * 1e-6)
    assert more(long, pads_to_cuda_graphs=True) == 0
    padded = _steps().linear_s(16) - _steps().linear_s(10)
    assert more(pads_to_cuda_graphs=True) == pytest.approx(padded)


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> YamlDocument:
    """Return the small scenario with one long answer, read."""
    path = tmp_path_factory.mktemp("scenario") / "small.yaml"
    path.write_text(SMALL, encoding="utf-8")
    return load_yaml(path)


def _run(document: YamlDocument, *changes: str, clients: int = 4) -> Run:
    deployment = _deployed(document, *changes)
    return simulate(deployment.engine, deployment.load_at(clients), 0)


def _deployed(document: YamlDocument, *changes: str) -> Deployment:
    workload = "workload={shared_prefix_tokens: 0, turns: 1, new_tokens: 100, output_tokens: 200}"
    return deploy(decode(apply_overrides(document, [workload, *changes]), Scenario), document.source)


def _gaps(run: Run) -> list[float]:
    times = run.records[0].token_times_s
    return [late - early for early, late in pairwise(times)]


def test_penalties_grow_with_the_answer(document: YamlDocument) -> None:
    """The k-th gap is longer by k scans a penalised request, as document 004 says."""
    with_none, with_all = (
        _gaps(_run(document)),
        _gaps(_run(document, "costs={penalty_token_s: 1e-5, penalised_share: 1}")),
    )
    extra = [late - early for early, late in zip(with_none, with_all, strict=True)]
    assert extra[0] == pytest.approx(4 * 1 * 1e-5, rel=1e-6)
    assert extra[-1] == pytest.approx(4 * 199 * 1e-5, rel=1e-6)
    half = _gaps(_run(document, "costs={penalty_token_s: 1e-5, penalised_share: 0.5}"))
    assert half[-1] - with_none[-1] == pytest.approx(2 * 199 * 1e-5, rel=1e-6)


def test_one_structured_request_slows_the_whole_batch(document: YamlDocument) -> None:
    """Free-form answers beside it wait for its mask too."""
    plain = _run(document)
    slowed = _run(document, "costs={structured_step_s: 0.002, structured_share: 0.25}")
    for before, after in zip(plain.records, slowed.records, strict=True):
        assert after.e2e_s - before.e2e_s == pytest.approx(200 * 0.002, rel=0.02)


def test_hashing_is_charged_once_and_only_with_prefix_caching(document: YamlDocument) -> None:
    """In the step that admits the request."""
    cost = "costs={hashing_token_s: 1e-4}"
    plain, on = _run(document, clients=1).records[0], _run(document, cost, clients=1).records[0]
    off = _run(document, cost, "engine.enable_prefix_caching=false", clients=1).records[0]
    assert on.ttft_s - plain.ttft_s == pytest.approx(100 * 1e-4)
    assert on.e2e_s - plain.e2e_s == pytest.approx(100 * 1e-4)
    assert off.ttft_s == pytest.approx(plain.ttft_s)


def test_the_link_is_outside_the_engine(document: YamlDocument) -> None:
    """The client sees a round trip and a flush more; the engine's own times stay, and the next request comes later."""
    setting = "costs={round_trip_s: 0.1, flush_s: 0.01, tokenising_token_s: 1e-4}"
    twice = "stop.sessions_per_client=2"
    plain, far = _run(document, twice, clients=1), _run(document, setting, twice, clients=1)
    for before, after in zip(plain.records, far.records, strict=True):
        assert after.ttft_s - before.ttft_s == pytest.approx(0.1 + 0.01 + 0.01)
        assert after.e2e_s - before.e2e_s == pytest.approx(0.1 + 0.01 + 0.01)
    assert far.records[1].arrival_s == pytest.approx(far.records[0].last_token_s)


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("costs.round_trip=0.1", "did you mean 'round_trip_s'?"),
        ("costs.penalised_share=0.5", "need each other"),
        ("costs={structured_step_s: 0.1}", "need each other"),
        ("costs={structured_share: 2, structured_step_s: 0.1}", "structured_share"),
        ("costs.flush_s=-1", "flush_s"),
        ("costs.host_step_s=1e9", "host_step_s"),
        ("costs.host_step_s=.nan", "host_step_s"),
    ],
)
def test_wrong_costs_are_one_line(document: YamlDocument, setting: str, said: str) -> None:
    """With the key, and the nearest name."""
    with pytest.raises(ScenarioError) as raised:
        _deployed(document, setting)
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_result_says_which_costs_it_holds(document: YamlDocument) -> None:
    """With who says so; nothing where there are none."""
    assert dict(cost_sources(_deployed(document))) == {}
    given = _deployed(document, "costs={round_trip_s: 0.02, hashing_token_s: 1e-6}")
    assert dict(cost_sources(given)) == {"round_trip_s": "0.02 (given)", "hashing_token_s": "1e-06 (given)"}
    small = _deployed(document, "gpu=RTX 4060 Ti 8GB", "model=Qwen3-1.7B", "weight_dtype=bf16", "profile=8gb-class")
    ((name, text),) = cost_sources(small)
    assert name == "eager_kernel_s"
    assert text.endswith("(fitted)")


@settings(max_examples=cases(25), deadline=None)
@given(
    clients=st.integers(1, 10),
    kv_tokens=st.sampled_from([2100, 3000, 20000]),
    is_async=st.booleans(),
    penalised=st.sampled_from([0.3, 1.0]),
    structured=st.sampled_from([0.25, 1.0]),
    seed=st.integers(0, 3),
)
def test_looking_ahead_changes_nothing(document: YamlDocument, *, is_async: bool, **drawn: Any) -> None:
    """With penalties and grammars too, stretches of decode steps end when single steps would: bit for bit."""
    deployment = deploy(
        decode(
            apply_overrides(
                document,
                [
                    (
                        "workload={shared_prefix_tokens: 0, turns: 2, new_tokens: {kind: uniform, low: 5, high: 400}, "
                        "output_tokens: {kind: uniform, low: 1, high: 300}}"
                    ),
                    f"engine.kv_cache_tokens={drawn['kv_tokens']}",
                    "engine.max_model_len=2048",
                    f"engine.async_scheduling={str(is_async).lower()}",
                    (
                        f"costs={{penalty_token_s: 1e-6, penalised_share: {drawn['penalised']}, "
                        f"structured_step_s: 1e-3, structured_share: {drawn['structured']}, "
                        "structured_sequence_s: 1e-4, hashing_token_s: 1e-6}"
                    ),
                ],
            ),
            Scenario,
        ),
        document.source,
    )
    load = deployment.load_at(drawn["clients"])
    ahead = simulate(deployment.engine, load, drawn["seed"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ContinuousScheduler, "quiet_steps", lambda _: 0)
        single = simulate(deployment.engine, load, drawn["seed"])
    assert ahead.log.steps == single.log.steps
    for one, other in zip(ahead.records, single.records, strict=True):
        assert one.token_times_s == other.token_times_s
        assert one.preemptions == other.preemptions


def test_a_profile_names_its_costs_as_scenarios_do(tmp_path: Path) -> None:
    """Another name is an error, with the nearest one."""
    text = (SHIPPED / "8gb-class.yaml").read_text(encoding="utf-8")
    head, costs = text.split("\ncosts:\n")
    path = tmp_path / "mine.yaml"
    path.write_text(f"{head}\ncosts:\n{costs.replace('eager_kernel_s', 'eager_kernels_s')}", encoding="utf-8")
    with pytest.raises(ProfileError, match=r"mine.yaml: costs: .*did you mean 'eager_kernel_s'"):
        load_any(str(path))
