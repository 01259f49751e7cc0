"""The small transformer: paged, chunked and batched, it computes what a plain forward pass does."""

from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from torch import Tensor  # noqa: E402

from calibrate.timing import small_transformer_steps  # noqa: E402
from calibrate.timing.machine import open_machine  # noqa: E402
from calibrate.timing.small_transformer import SmallTransformer  # noqa: E402
from calibrate.timing.small_transformer_batch import Chunk, StepBatch  # noqa: E402
from calibrate.timing.small_transformer_steps import lay_out, new_transformer, step_timer  # noqa: E402
from sim.catalog import Model  # noqa: E402
from sim.errors import CalibrationError  # noqa: E402
from sim.steptime.batch import BatchShape  # noqa: E402

TINY = Model(
    name="tiny",
    num_hidden_layers=3,
    hidden_size=64,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=32,
    intermediate_size=96,
    vocab_size=199,
    tie_word_embeddings=False,
    max_position_embeddings=4096,
    source="test",
)
BLOCK_SIZE, BLOCKS = 4, 200
NO_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA GPU here")
TOLERANCE = {"atol": 2e-4, "rtol": 2e-4}


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=NO_GPU)], scope="module")
def transformer(request: pytest.FixtureRequest) -> SmallTransformer:
    """Return a tiny transformer in fp32 on the CPU, and on the GPU where there is one."""
    return SmallTransformer(TINY, open_machine(request.param, "fp32", 1), "fp32", blocks=BLOCKS, block_size=BLOCK_SIZE)


def ids(seed: int, count: int) -> Tensor:
    """Return tokens of one request."""
    return torch.randint(0, TINY.vocab_size, (count,), generator=torch.Generator().manual_seed(seed))


def blocks_of(*tokens: int, seed: int = 0) -> list[Tensor]:
    """Return blocks for requests that grow to so many tokens, none in order and none shared."""
    counts = [-(-count // BLOCK_SIZE) for count in tokens]
    order = torch.randperm(BLOCKS, generator=torch.Generator().manual_seed(seed))
    return list(order[: sum(counts)].split(counts))


def rms(states: Tensor) -> Tensor:
    """Return states with unit root mean square."""
    unit: Tensor = states * torch.rsqrt(states.square().mean(-1, keepdim=True) + 1e-6)
    return unit


def plain_logits(transformer: SmallTransformer, tokens: Tensor) -> Tensor:
    """Return (tokens, vocabulary) of a forward pass without cache: rotary by complex numbers, attention written out."""
    device, heads, half = transformer.machine.kind, TINY.num_attention_heads, TINY.head_dim // 2
    group, count = heads // TINY.num_key_value_heads, len(tokens)
    turns = torch.arange(count)[:, None] * 10_000.0 ** -(torch.arange(half) / half)
    phase = torch.polar(torch.ones_like(turns), turns).to(device)[:, None]
    future = torch.ones(count, count, dtype=torch.bool, device=device).triu(1)
    states = transformer.embedding[tokens.to(device)]
    for layer in range(TINY.num_hidden_layers):
        qkv = transformer.linear["qkv"](layer, rms(states)).view(count, -1, TINY.head_dim)
        turning = torch.complex(qkv[..., :half], qkv[..., half:]) * phase
        turned = torch.cat([turning.real, turning.imag], -1)
        query, key = turned[:, :heads], turned[:, heads : -TINY.num_key_value_heads].repeat_interleave(group, 1)
        value = qkv[:, -TINY.num_key_value_heads :].repeat_interleave(group, 1)
        scores = torch.einsum("qhd,khd->hqk", query, key) / TINY.head_dim**0.5
        weights = scores.masked_fill(future, float("-inf")).softmax(-1)
        states = states + transformer.linear["o"](layer, torch.einsum("hqk,khd->qhd", weights, value).flatten(1))
        gate, up = transformer.linear["gate_up"](layer, rms(states)).chunk(2, -1)
        states = states + transformer.linear["down"](layer, gate * torch.sigmoid(gate) * up)
    return transformer.head(0, rms(states))


def run(transformer: SmallTransformer, batch: StepBatch, tokens: list[Tensor], blocks: list[Tensor]) -> Tensor:
    """Run a step: `tokens` are whole requests, of which the batch computes the part after each past."""
    new = [own[past : past + count] for own, (count, past) in zip(tokens, batch.requests, strict=True)]
    used = [own[:count] for own, count in zip(blocks, batch.blocks(BLOCK_SIZE), strict=True)]
    return transformer.logits(transformer.prepare(batch, torch.cat(new), used))


def test_a_prompt_gives_what_a_plain_forward_pass_gives(transformer: SmallTransformer) -> None:
    """Blocks in any order, one step."""
    tokens = ids(0, 23)
    got = run(transformer, StepBatch((Chunk(23, 0),)), [tokens], blocks_of(23))
    torch.testing.assert_close(got[0], plain_logits(transformer, tokens)[-1], **TOLERANCE)


@settings(max_examples=25, deadline=None)
@given(cuts=st.sets(st.integers(1, 36), max_size=6), seed=st.integers(0, 100))
def test_chunks_give_what_the_whole_prompt_gives(transformer: SmallTransformer, cuts: set[int], seed: int) -> None:
    """However a prompt is cut, each chunk's last row is that of a plain pass."""
    tokens, blocks, ends = ids(seed, 37), blocks_of(37, seed=seed), [*sorted(cuts), 37]
    expected = plain_logits(transformer, tokens)
    for start, end in zip([0, *ends], ends, strict=False):
        got = run(transformer, StepBatch((Chunk(end - start, start),)), [tokens], blocks)
        torch.testing.assert_close(got[0], expected[end - 1], **TOLERANCE)


def test_decoding_gives_what_the_same_tokens_give_as_a_prompt(transformer: SmallTransformer) -> None:
    """Token by token after a prompt, over block ends."""
    tokens, blocks = ids(1, 21), blocks_of(21)
    expected = plain_logits(transformer, tokens)
    run(transformer, StepBatch((Chunk(9, 0),)), [tokens], blocks)
    for past in range(9, 21):
        got = run(transformer, StepBatch(decode_pasts=(past,)), [tokens], blocks)
        torch.testing.assert_close(got[0], expected[past], **TOLERANCE)


def test_requests_of_a_mixed_step_do_not_see_each_other(transformer: SmallTransformer) -> None:
    """Two chunks and three rows of different lengths: each gets what it gets alone."""
    totals, pasts = (17, 30, 6, 41, 13), (0, 12, 5, 40, 12)
    tokens, blocks = [ids(seed, total) for seed, total in enumerate(totals)], blocks_of(*totals)
    for own, of_own, past in zip(tokens, blocks, pasts, strict=True):
        if past:
            run(transformer, StepBatch((Chunk(past, 0),)), [own], [of_own])
    batch = StepBatch((Chunk(17, 0), Chunk(18, 12)), (5, 40, 12))
    got = run(transformer, batch, tokens, blocks)
    expected = torch.stack([plain_logits(transformer, own)[-1] for own in tokens])
    torch.testing.assert_close(got, expected, **TOLERANCE)
    used = [own[:count] for own, count in zip(blocks, batch.blocks(BLOCK_SIZE), strict=True)]
    rows = [own[past:] for own, past in zip(tokens, pasts, strict=True)]
    sampled = transformer.step(transformer.prepare(batch, torch.cat(rows), used))
    assert sampled.tolist() == expected.argmax(-1).tolist()


@pytest.mark.parametrize("batch", [StepBatch((Chunk(7, 14),)), StepBatch(decode_pasts=(20,))])
def test_a_wrong_block_gives_something_else(transformer: SmallTransformer, batch: StepBatch) -> None:
    """With one block of another request in its table. The order of its own cannot matter: keys are stored turned."""
    tokens, (own, others) = ids(2, 21), blocks_of(21, 21)
    run(transformer, StepBatch((Chunk(20, 0),)), [tokens], [own])
    wrong = torch.cat([own[:1], others[:1], own[2:]])
    got = run(transformer, batch, [tokens], [wrong])
    assert (got[0] - plain_logits(transformer, tokens)[-1]).abs().max() > 100 * TOLERANCE["atol"]


def test_a_step_tells_the_step_time_model_what_it_holds() -> None:
    """Pairs of query and key, and the keys decode rows attend to, counted one by one."""
    batch = StepBatch((Chunk(3, 10), Chunk(2, 0)), (5, 7))
    pairs = sum(past + place + 1 for new, past in batch.chunks for place in range(new))
    assert batch.shape == BatchShape(
        tokens=7,
        sampled=4,
        prefill_pairs=pairs,
        decode_rows=2,
        decode_kv_tokens=6 + 8,
        holds_prefill=True,
        prefill_kv_tokens=13 + 2,
    )
    assert [StepBatch(batch.chunks).kind, batch.kind, StepBatch(decode_pasts=(1,)).kind] == [
        "prefill",
        "mixed",
        "decode",
    ]
    assert str(batch) == "3 new on 10 + 2 new on 0 + 2 rows on 5..7"


def test_a_laid_out_step_runs_on_blocks_of_its_own(transformer: SmallTransformer) -> None:
    """No two tokens go to one slot; the timer runs the step once a call."""
    inputs = lay_out(transformer, StepBatch((Chunk(30, 11),), (8, 9)), seed=3)
    assert len(set(inputs.slots.tolist())) == 32
    assert step_timer(transformer, inputs)() > 0


def test_a_gpu_replays_the_step_from_a_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    """With stand-ins for CUDA: compiled by a first run, captured once, replayed for every sample."""
    ran: list[str] = []
    monkeypatch.setattr(
        small_transformer_steps,
        "captured",
        lambda call: (call(), SimpleNamespace(replay=lambda: ran.append("replay")))[1],
    )
    monkeypatch.setattr(small_transformer_steps, "event_s", lambda call: (call(), 0.25)[1])
    stand_in = SimpleNamespace(machine=SimpleNamespace(kind="cuda"), step=lambda _: ran.append("step"))
    once = step_timer(stand_in, None)  # type: ignore[arg-type]
    assert [once(), once()] == [0.25, 0.25]
    assert ran == ["step", "step", "replay", "replay"]


def test_too_little_memory_is_said_before_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """In one line with both figures."""
    monkeypatch.setattr(small_transformer_steps, "free_bytes", lambda _: 2**20)
    with pytest.raises(CalibrationError, match=r"needs \d+\.\d GiB of memory, 0\.0 GiB are free"):
        new_transformer(TINY, open_machine("cpu", "fp32", 1), "fp32", blocks=10**6, block_size=16)
