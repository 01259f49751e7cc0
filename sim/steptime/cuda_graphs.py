"""Sizes that vLLM captures CUDA graphs of by default: 1, 2, 4, multiples of 8 below 256, of 16 from there on.

A step runs in the graph of the next size, its rows padded; beyond the largest size no graph holds it. So does
`_set_cudagraph_sizes` of vLLM 0.10 to 0.32; the largest is twice max_num_seqs, at most 512.
"""


def captured_tokens(tokens: int, most: int) -> int | None:
    """Return the captured size that a step of so many tokens runs in, of sizes up to `most`; None: no graph."""
    if tokens <= 2:
        size = tokens
    elif tokens <= 4:
        size = 4
    else:
        width = 8 if tokens <= 256 else 16
        size = -(-tokens // width) * width
    return size if size <= most else None
