"""Fits the profile `toy-transformer` to the four step times that founding document 003 publishes, and to nothing else.

    python -m calibrate.queue_document > sim/steptime/profiles/toy-transformer.yaml

    567.05 ms   a 48-token answer to a 16-token prompt without a KV cache: passes over 16, 17, ... 63 rows
    39.19 ms    the same answer with a cache: a prefill of 16, then 47 decode steps
    0.751 ms    a decode step at context 64 with 1 row
    6.482 ms    the same with 16 rows

A pass of n rows costs a + b n + k (pairs attended to), and h more for each row whose next token is sampled. Four
figures settle the four numbers exactly; that they come out positive is all that speaks for the form.
The queue of 1,000 requests that the document simulates is no input: it is what the profile is judged by.
"""

import sys

import msgspec
import numpy as np

from calibrate.yaml_text import rounded
from sim.catalog import load_gpu, load_model
from sim.steptime.light_speed import bounds
from sim.steptime.profile import (
    Frontend,
    Head,
    KvAttention,
    Linear,
    Profile,
    Provenance,
    Source,
    Term,
    check_light_speed,
)

NAME, GPU, MODEL, DTYPE = "toy-transformer", "M2 Pro", "toy-transformer", "fp32"
PROMPT, ANSWER, CONTEXT, ROWS = 16, 48, 64, 16
PUBLISHED_S = {
    "answer_without_cache_s": 0.56705,
    "answer_with_cache_s": 0.03919,
    "decode_1_row_s": 0.000751,
    "decode_16_rows_s": 0.006482,
}
SPREAD = 0.02  # the document's five runs of one figure differ by that much


def _pass(rows: float, pairs: float, sampled: float) -> list[float]:
    """Return how often a pass pays each of the four numbers: step, row, pair, sampled row."""
    return [1.0, rows, pairs, sampled]


def terms() -> tuple[float, float, float, float]:
    """Return seconds a step, a row, a pair and a sampled row."""
    prefills = [_pass(n, n * (n + 1) / 2, 1) for n in range(PROMPT, PROMPT + ANSWER)]
    decodes = [_pass(1, n, 1) for n in range(PROMPT + 1, PROMPT + ANSWER)]
    system = [
        np.sum(prefills, axis=0),
        np.add(prefills[0], np.sum(decodes, axis=0)),
        _pass(1, CONTEXT, 1),
        _pass(ROWS, ROWS * CONTEXT, ROWS),
    ]
    step_s, row_s, pair_s, sampled_s = np.linalg.solve(np.array(system), np.array(list(PUBLISHED_S.values())))
    return float(step_s), float(row_s), float(pair_s), float(sampled_s)


def fit() -> Profile:
    """Return the profile; deterministic."""
    gpu, model = load_gpu(GPU), load_model(MODEL)
    step_s, row_s, pair_s, sampled_s = terms()
    head_s = 1.001 * bounds(gpu, model, DTYPE).head_read_s  # a third of a microsecond of the step is reading the head
    profile = Profile(
        name=NAME,
        gpu=gpu.name,
        model=model.name,
        weight_dtype=DTYPE,
        provenance=Provenance(
            kind="fitted",
            made_by="python -m calibrate.queue_document",
            date="2026-11-30",
            sources=["founding document 003: four step times of a toy transformer in JavaScript, one thread"],
            residuals=dict.fromkeys(PUBLISHED_S, 0.0),
            notes=[
                "four figures for four terms: no residual is left to judge the form by",
                "the shape of the toy is not published; the catalog's entry is assumed and moves no time",
            ],
        ),
        step_overhead_s=_term(step_s - head_s),
        linear=Linear(tokens=[1, 2], seconds=[row_s, 2 * row_s], source="fitted", note="each row alike"),
        head=Head(per_step_s=_term(head_s, "datasheet"), per_sequence_s=_term(sampled_s)),
        attention={
            DTYPE: KvAttention(
                prefill_s_per_pair=_term(pair_s),
                decode_bytes_per_s=_term(model.kv_bytes_per_token(DTYPE) / pair_s),
            )
        },
        prefill_tile_rows=1,
        shared_prefix_reads="per_sequence",
        frontend=Frontend(per_request_s=_term(0.0, "assumed"), per_prompt_token_s=_term(0.0, "assumed")),
    )
    check_light_speed(profile, gpu, model, NAME)
    return profile


def _term(value: float, source: Source = "fitted") -> Term:
    return Term(value=value, source=source, low=value * (1 - SPREAD), high=value * (1 + SPREAD))


def main() -> None:
    """Print the profile as YAML."""
    import yaml

    head = "# Made by `python -m calibrate.queue_document` (make profile); edit that file, not this one.\n"
    document = rounded(msgspec.to_builtins(fit()))
    sys.stdout.write(head + yaml.safe_dump(document, sort_keys=False, width=110, allow_unicode=True))


if __name__ == "__main__":
    main()
