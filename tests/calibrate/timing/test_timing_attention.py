from collections.abc import Callable

import pytest

torch = pytest.importorskip("torch")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from calibrate.timing import paged_attention_torch  # noqa: E402
from calibrate.timing.attention_cases import block_tables  # noqa: E402
from calibrate.timing.paged_cache import PagedCache, Stored, dequantise, pool, quantise  # noqa: E402
from calibrate.timing.prefill_attention import prefill  # noqa: E402

BLOCK_SIZE = 16
KV_DTYPES = ["fp32", "bf16", "fp16", "fp8", "int8", "int4"]
GPU = torch.cuda.is_available()
DEVICE = "cuda" if GPU else "cpu"
# Of the stored values: rounding is half a step of the type, relative for floats, of the row's range for integers.
WORST = {"fp32": 0.0, "bf16": 2**-8, "fp16": 2**-10, "fp8": 2**-4, "int8": 1.2 / 254, "int4": 1.2 / 30}


def fused() -> Callable[..., "torch.Tensor"]:
    """Return the Triton kernel: on a GPU where there is one, else in Triton's interpreter."""
    pytest.importorskip("triton", reason="triton is not installed, so its kernel cannot run here")
    from triton.language import sum as nested
    from triton.runtime.jit import JITFunction

    if not GPU and isinstance(nested, JITFunction):
        pytest.skip("triton was imported before it was asked to interpret; run this folder's tests alone")
    from calibrate.timing.paged_attention_triton import paged_decode

    return paged_decode


def dense(query: "torch.Tensor", key: "torch.Tensor", value: "torch.Tensor") -> "torch.Tensor":
    """Return attention in fp64: query (heads, rows, dim) over key and value (kv_heads, tokens, dim), last rows last."""
    group = query.shape[0] // key.shape[0]
    key, value = key.double().repeat_interleave(group, 0), value.double().repeat_interleave(group, 0)
    scores = query.double() @ key.transpose(1, 2) * query.shape[-1] ** -0.5
    rows, tokens = scores.shape[1:]
    seen = torch.ones(rows, tokens, dtype=torch.bool, device=query.device).tril(tokens - rows)
    return torch.softmax(scores.masked_fill(~seen, -torch.inf), -1) @ value


def cached(kv_dtype: str, kv_heads: int, head_dim: int, device: str = "cpu") -> PagedCache:
    """Return a pool of 60 blocks."""
    torch.manual_seed(1)
    plain = torch.randn(2, 60, BLOCK_SIZE, kv_heads, head_dim, device=device)
    return PagedCache(kv_dtype, quantise(plain[0], kv_dtype), quantise(plain[1], kv_dtype))


def rows_of(stored: Stored, kv_dtype: str, table: "torch.Tensor", context: int) -> "torch.Tensor":
    """Return (kv_heads, context, head_dim) of one sequence, as stored."""
    return dequantise(stored, kv_dtype, torch.float32)[table.long()].flatten(0, 1)[:context].transpose(0, 1)


def expected(query: "torch.Tensor", cache: PagedCache, tables: "torch.Tensor", lengths: list[int]) -> "torch.Tensor":
    """Return what decode attention over the stored values must give."""
    rows = [
        dense(
            query[place].unsqueeze(1).float(),
            rows_of(cache.key, cache.kv_dtype, tables[place], context),
            rows_of(cache.value, cache.kv_dtype, tables[place], context),
        ).squeeze(1)
        for place, context in enumerate(lengths)
    ]
    return torch.stack(rows)


@pytest.mark.parametrize("kv_dtype", KV_DTYPES)
@given(scale=st.floats(1e-2, 100), seed=st.integers(0, 1000))
@settings(max_examples=20)
def test_a_quantised_cache_keeps_values_to_half_a_step(kv_dtype: str, scale: float, seed: int) -> None:
    """What comes back differs by at most the rounding of the type, and scales take the bytes they should."""
    plain = torch.randn(3, BLOCK_SIZE, 2, 32, generator=torch.Generator().manual_seed(seed)) * scale
    stored = quantise(plain, kv_dtype)
    error = (dequantise(stored, kv_dtype, torch.float32) - plain).abs()
    spread = plain.amax(-1, keepdim=True) - plain.amin(-1, keepdim=True)
    whole = {"int8": 2 * plain.abs().amax(-1, keepdim=True), "int4": spread}.get(kv_dtype, plain.abs())
    floor = plain.abs().max() / 448 * 2**-9 if kv_dtype == "fp8" else scale * 2e-3 if kv_dtype == "int4" else 1e-6
    assert bool((error <= WORST[kv_dtype] * whole + floor).all())
    assert stored.elements.shape[-1] == (16 if kv_dtype == "int4" else 32)


@pytest.mark.parametrize("kv_dtype", KV_DTYPES)
@pytest.mark.parametrize(("heads", "kv_heads", "head_dim"), [(8, 2, 128), (4, 4, 32), (6, 2, 80)])
def test_paged_decode_in_torch_equals_dense_attention(kv_dtype: str, heads: int, kv_heads: int, head_dim: int) -> None:
    """Over scattered blocks and ragged contexts, in fp32: to 1e-5."""
    cache, lengths = cached(kv_dtype, kv_heads, head_dim), [1, 77, 320]
    tables = torch.randperm(60)[:60].view(3, 20).int()
    query = torch.randn(3, heads, head_dim)
    got = paged_attention_torch.paged_decode(query, cache, tables, torch.tensor(lengths), 320)
    torch.testing.assert_close(got.double(), expected(query, cache, tables, lengths), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("native_fp8", [True, False])
@pytest.mark.parametrize("kv_dtype", KV_DTYPES)
@pytest.mark.parametrize(("heads", "kv_heads", "head_dim"), [(8, 2, 128), (6, 2, 80)])
def test_the_triton_kernel_equals_dense_attention(
    kv_dtype: str, heads: int, kv_heads: int, head_dim: int, *, native_fp8: bool
) -> None:
    """With one and several stretches of context, and both ways to read fp8: to 2e-5 in fp32."""
    kernel = fused()
    if native_fp8 and GPU and torch.cuda.get_device_capability() < (8, 9):
        pytest.skip("this chip does not convert fp8 itself")
    cache, lengths = cached(kv_dtype, kv_heads, head_dim, DEVICE), [1, 77, 320]
    tables = torch.randperm(60).view(3, 20).int().to(DEVICE)
    query = torch.randn(3, heads, head_dim, device=DEVICE)
    for multiprocessors in (1, 40):
        got = kernel(
            query,
            cache,
            tables,
            torch.tensor(lengths, dtype=torch.int32, device=DEVICE),
            320,
            multiprocessors=multiprocessors,
            native_fp8=native_fp8,
        )
        torch.testing.assert_close(got.double(), expected(query, cache, tables, lengths), atol=2e-5, rtol=2e-5)


@pytest.mark.parametrize(("sequences", "shared"), [(1, 0), (3, 0), (3, 2), (3, 5)])
def test_block_tables_share_the_prefix_and_nothing_else(sequences: int, shared: int) -> None:
    """Rows begin with the same blocks; the rest belongs to one row of one copy."""
    each = 5
    blocks = torch.arange(2 * (shared + sequences * (each - shared))).view(2, -1)
    tables = block_tables(blocks, sequences, shared)
    assert tables.shape == (2, sequences, each)
    assert bool((tables[:, :, :shared] == tables[:, :1, :shared]).all())
    assert len(tables.unique()) == blocks.numel()


def test_a_pool_holds_no_nan_whatever_its_type() -> None:
    """Random bytes would hold some: fp8 has two patterns of NaN."""
    for kv_dtype in KV_DTYPES:
        cache = pool((300, BLOCK_SIZE, 2, 32), kv_dtype, "cpu")
        assert bool(dequantise(cache.key, kv_dtype, torch.float32).isfinite().all())
        assert len(cache.value.elements) == 300


@pytest.mark.parametrize(("new", "past"), [(1, 0), (1, 33), (17, 0), (17, 64), (64, 7)])
@pytest.mark.parametrize(("heads", "kv_heads"), [(4, 4), (6, 2)])
def test_prefill_on_a_past_sees_all_of_it_and_nothing_later(new: int, past: int, heads: int, kv_heads: int) -> None:
    """The two-part CPU path, and the GPU's kernel where there is one, equal masked dense attention."""
    torch.manual_seed(2)
    dtype, tolerance = (torch.float16, 5e-3) if GPU else (torch.float32, 1e-5)
    query = torch.randn(2, heads, new, 32, device=DEVICE, dtype=dtype)
    key, value = torch.randn(2, 2, kv_heads, past + new, 32, device=DEVICE, dtype=dtype)
    got = prefill(query, key, value, torch.cuda.get_device_capability() if GPU else None)
    want = torch.stack([dense(query[place], key[place], value[place]) for place in range(2)])
    torch.testing.assert_close(got.double(), want, atol=tolerance, rtol=tolerance)
