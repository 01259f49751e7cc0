"""Fits of single operations: known terms come back, errors are honest, and rows that say nothing are left alone."""

from collections.abc import Callable, Iterator

import numpy as np
import pandas as pd
import pytest
from device_profiles import GEMM
from synthetic_tables import GPU, TRUTH, Row, decodes, experts, gemms, noisy, prefills, reduces, table_of

from calibrate.fitting.groups import SPARE_ROWS, groups
from calibrate.fitting.limits import limits_of
from calibrate.fitting.operations import MOST_ROWS, GroupFit, fit_operations
from calibrate.fitting.start import assumed_device
from sim.catalog import load_gpu
from sim.steptime.operations import AttentionTerms, GemmTerms, LinkTerms, decode_attention_s, gemm_s

L4 = load_gpu(GPU)
NOISE, OUTLIERS = 0.02, 10
CLEAN = table_of(*gemms(), *prefills(), *decodes(), *experts(), *reduces())
WITHIN = {  # how near the truth a term must come back, for those that the rows say much about
    "linear.bf16.bytes_per_s": 0.02,
    "linear.bf16.flops_per_s": 0.04,
    "attention.bf16.prefill_overhead_s": 0.05,
    "attention.bf16.prefill_flops_per_s": 0.02,
    "attention.bf16.prefill_pairs_per_token": 0.05,
    "attention.bf16.decode_overhead_s": 0.02,
    "attention.bf16.decode_row_s": 0.15,
    "attention.bf16.decode_bytes_per_s": 0.02,
    "experts.bf16.bytes_per_s": 0.03,
    "links.2.latency_s": 0.05,
    "links.2.bytes_per_s": 0.02,
}


def fits(table: pd.DataFrame, replicates: int = 0, seed: int = 0) -> dict[str, GroupFit]:
    """Return the fit of every group of a table, by its name."""
    found = fit_operations(assumed_device(L4), L4, table, replicates=replicates, seed=seed)
    return {one.group.name: one for one in found}


@pytest.fixture(scope="module")
def replicated() -> list[dict[str, GroupFit]]:
    """Return fits of five noisy tables, with intervals."""
    return [fits(noisy(CLEAN, NOISE, seed, outliers=OUTLIERS), replicates=40) for seed in range(5)]


def test_rows_without_noise_give_back_their_terms() -> None:
    """All of them, from the assumptions about a GPU nobody measured."""
    found = {name: term for one in fits(CLEAN).values() for name, term in one.terms.items()}
    assert found.keys() == TRUTH.keys()
    for name, term in found.items():
        assert term.value == pytest.approx(TRUTH[name], rel=0.02), name
        assert term.source == "fitted"


@pytest.mark.parametrize("name", WITHIN)
def test_noise_and_stalled_rows_hardly_move_what_the_rows_determine(
    replicated: list[dict[str, GroupFit]], name: str
) -> None:
    """2 % of noise, and ten rows of 300 that took three times as long; over five tables."""
    for one in replicated:
        (value,) = [fit.terms[name].value for fit in one.values() if name in fit.terms]
        assert value == pytest.approx(TRUTH[name], rel=WITHIN[name])


def test_intervals_hold_the_truth_most_of_the_time(replicated: list[dict[str, GroupFit]]) -> None:
    """Nominally 95 % of them; degenerate terms and 40 replicates cost some."""
    terms = [item for one in replicated for fit in one.values() for item in fit.terms.items()]
    held = [term.low <= TRUTH[name] <= term.high for name, term in terms if term.low is not None and term.high]
    assert len(held) == 5 * len(TRUTH)
    assert np.mean(held) > 0.8
    assert all(term.low < term.value < term.high for _, term in terms if term.low is not None and term.high)


def test_errors_on_rows_not_seen_are_near_the_noise(replicated: list[dict[str, GroupFit]]) -> None:
    """The median of |error| of 2 % noise is 1.35 %; no fold does it for nothing, none is far off."""
    for one in replicated:
        for fit in one.values():
            summary = fit.summary
            assert summary["rows"] == len(fit.group.rows)
            assert 0.006 < summary["k_fold_median"] < (0.03 if summary["rows"] > 50 else 0.1)
            assert summary["k_fold_median"] > 0.9 * summary["median"]
            assert summary["context_left_out_median"] < (0.03 if summary["rows"] > 50 else 0.1)


def test_only_the_context_that_is_wrong_is_predicted_badly_when_left_out() -> None:
    """All products of 256 tokens took 1.6 times as long: predicted from the rest they are 37 % off, others are not."""
    table = table_of(*gemms())
    wrong = (table["tokens"] == 256).to_numpy()
    table.loc[wrong, "time_s"] *= 1.6
    (fit,) = fits(table).values()
    assert fit.context_held_out[wrong] == pytest.approx(1 / 1.6 - 1, abs=0.08)
    assert np.median(np.abs(fit.context_held_out[~wrong])) < 0.03
    assert fit.summary["context_left_out_median"] < 0.05


def test_a_context_that_is_all_there_is_has_no_error_and_no_warning() -> None:
    """Nothing is left to predict it from."""
    alone = table_of(*gemms(), *gemms())
    (fit,) = fits(alone[alone["tokens"] == 1]).values()
    assert np.isnan(fit.context_held_out).all()
    assert np.isnan(fit.summary["context_left_out_median"])
    assert np.isfinite(fit.summary["k_fold_median"])


def test_the_same_seed_gives_the_same_terms_and_another_only_other_intervals() -> None:
    """The estimate itself draws no lot below the size where rows are sampled."""
    table = noisy(table_of(*reduces()), NOISE)
    one, same, other = (next(iter(fits(table, 20, seed).values())) for seed in (1, 1, 2))
    assert one.terms == same.terms
    for name, term in one.terms.items():
        assert other.terms[name].value == pytest.approx(term.value)
        assert other.terms[name].high != term.high


def test_no_term_leaves_its_physical_limits() -> None:
    """Rows a little faster than light, as a card that boosts gives them, put rates at the peak and not beyond."""
    peak = GemmTerms(**GEMM)._replace(flops_per_s=1.04 * L4.bf16_flops, bytes_per_s=1.04 * L4.bandwidth_bytes_per_s)
    rows = [
        row | {"time_s": float(gemm_s(peak, row["tokens"], row["out_features"], row["in_features"], 2.0, 2.0))}
        for row in gemms()
    ]
    (fit,) = fits(table_of(*rows), replicates=5).values()
    for name, term in fit.terms.items():
        low, high = limits_of(name, L4)
        assert low <= term.value <= high * (1 + 1e-9)
        assert term.high is not None
        assert term.high <= high * (1 + 1e-9)
    assert fit.terms["linear.bf16.flops_per_s"].value == pytest.approx(L4.bf16_flops, rel=0.01)


UNSAYING: dict[str, Callable[[pd.DataFrame], pd.DataFrame]] = {
    "products whose weights a loop keeps in the L2": lambda table: table.assign(out_features=256, in_features=256),
    "decode rows whose KV a loop keeps in the L2": lambda table: table.assign(sequences=1, past_tokens=4095),
    "attention with a sliding window": lambda table: table.assign(window=1024),
    "all-reduces launched one by one": lambda table: table.assign(graph="eager"),
    "weights in blocks of 4-bit floats": lambda table: table.assign(weight_dtype="mxfp4"),
}
ROWS = {"products": gemms, "decode": decodes, "attention": prefills, "all-reduces": reduces, "weights": experts}


@pytest.mark.parametrize("what", UNSAYING)
def test_rows_that_say_nothing_about_the_terms_are_left_out(what: str) -> None:
    """A group keeps exactly its other rows, whatever those claim."""
    good = table_of(*ROWS[what.split(maxsplit=1)[0]]())
    strange = UNSAYING[what](good.iloc[:20]).assign(time_s=1e-7)
    (alone,), (both,) = (list(groups(L4, table)) for table in (good, pd.concat([good, strange])))
    assert len(both.rows) == len(alone.rows) > 0


def test_hardly_more_rows_than_terms_move_rates_alone() -> None:
    """All terms would be met exactly, whatever the rows say."""
    table, fewest = table_of(*reduces()), 2 + SPARE_ROWS
    (ample,), (scarce,) = groups(L4, table.iloc[:fewest]), groups(L4, table.iloc[: fewest - 1])
    assert (len(ample.rows), ample.fields) == (fewest, LinkTerms._fields)
    assert (len(scarce.rows), scarce.fields) == (fewest - 1, ("bytes_per_s",))


INCOMPLETE = {
    "experts without shapes": (experts, {"experts": np.nan}),
    "experts without their width": (experts, {"out_features": np.nan}),
    "attention in an unknown type": (decodes, {"kv_cache_dtype": "nf4"}),
    "attention in int4": (prefills, {"kv_cache_dtype": "int4"}),
    "weights in an unknown type": (gemms, {"weight_dtype": "fp6"}),
}


@pytest.mark.parametrize("what", INCOMPLETE)
def test_rows_that_cannot_be_priced_cost_only_themselves(what: str) -> None:
    """What a table may leave empty, and types nobody has terms for."""
    rows, strange = INCOMPLETE[what]
    good = table_of(*rows())
    (alone,) = groups(L4, good)
    both = next(iter(groups(L4, pd.concat([good, good.iloc[:9].assign(**strange)]))))
    assert both.prefix == alone.prefix
    assert len(both.rows) == len(alone.rows)


@pytest.mark.parametrize("rows", [decodes, prefills, gemms, experts])
def test_rows_that_do_not_say_their_type_are_16_bit(rows: Callable[[], Iterator[Row]]) -> None:
    """As the table's documentation has it for what most measurements are."""
    table = table_of(*rows())
    (said,), (unsaid,) = groups(L4, table), groups(L4, table.assign(weight_dtype="", kv_cache_dtype=""))
    assert len(said.rows) == len(unsaid.rows)
    assert said.prefix == unsaid.prefix


def test_a_huge_table_is_sampled_to_what_is_enough() -> None:
    """And the terms are still those of the rows."""
    table = pd.concat([noisy(table_of(*reduces()), NOISE, seed) for seed in range(MOST_ROWS // 18 + 20)])
    (fit,) = fits(table).values()
    assert len(fit.group.rows) == MOST_ROWS
    assert fit.terms["links.2.bytes_per_s"].value == pytest.approx(TRUTH["links.2.bytes_per_s"], rel=0.01)


def test_fp8_caches_and_weights_have_terms_of_their_own() -> None:
    """Half the bytes at the same rate take half the time: fp8 rows give the same rate back."""
    halves = [
        row
        | {"kv_cache_dtype": "fp8"}
        | {
            "time_s": float(
                decode_attention_s(
                    AttentionTerms(*[TRUTH[f"attention.bf16.{name}"] for name in AttentionTerms._fields]),
                    row["sequences"],
                    row["sequences"] * (row["past_tokens"] + 1),
                    row["num_kv_heads"],
                    2 * row["head_dim"],
                )
            )
        }
        for row in decodes()
    ]
    (fit,) = fits(table_of(*halves)).values()
    truth = TRUTH["attention.bf16.decode_bytes_per_s"]
    assert fit.terms["attention.fp8.decode_bytes_per_s"].value == pytest.approx(truth, rel=0.02)
