"""The feed-forward block of each layer: dense, or routed experts with or without shared ones."""

from sim.catalog.config.keys import Keys
from sim.catalog.weights import WHOLE, Linear, dense_mlp, expert_mlps, router

_WIDTHS = ("intermediate_size", "ffn_hidden_size", "n_inner", "ffn_dim")
_COUNTS = ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts")
_PER_TOKEN = (
    "num_experts_per_tok",
    "num_experts_per_token",
    "experts_per_token",
    "top_k_experts",
    "moe_top_k",
    "moe_topk",
    "moe_k",
)


class FeedForward:
    """The blocks a config describes, each built once."""

    def __init__(self, keys: Keys, hidden_size: int, *, prefix: str = "mlp") -> None:
        self._keys, self._hidden = keys, hidden_size
        self._prefix = prefix
        self.gated = _gated(keys)
        self.experts = keys.size(*_COUNTS)
        self.experts_per_token = keys.count(*_PER_TOKEN) if self.experts else 0
        if self.experts_per_token > max(self.experts, 1):
            raise keys.broken(
                "num_experts_per_tok", f"{self.experts_per_token} is more than the {self.experts} experts"
            )
        self.expert_width = self._expert_width() if self.experts else 0
        self.dense_width = self._dense_width()
        self._sparse = self._expert_block() if self.experts else ()

    def block(self, *, sparse: bool, width: int | None = None) -> tuple[Linear, ...]:
        """Return a layer's block; `width` where this layer's dense one differs from the others'."""
        if sparse and self._sparse:
            return self._sparse
        width = self.dense_width if width is None else width
        return dense_mlp(self._hidden, width, prefix=self._prefix, gated=self.gated) if width else ()

    def _expert_width(self) -> int:
        return self._keys.count("moe_intermediate_size", "expert_intermediate_size", "moe_expert_ffn_size", *_WIDTHS)

    def _dense_width(self) -> int:
        keys = self._keys
        if "block_ff_dim" in keys:
            return _lfm_width(keys, keys.count("block_ff_dim"))
        wide = keys.size("intermediate_size_mlp", "dense_intermediate_size", *_WIDTHS)
        if not wide and "n_embd" in keys:
            return 4 * keys.count("n_embd")  # GPT-2 and its kin
        return wide or keys.size("shared_intermediate_size")

    def _expert_block(self) -> tuple[Linear, ...]:
        keys, hidden, matrices = self._keys, self._hidden, 3 if self.gated else 2
        both = keys.flag("enable_moe_block")  # Gemma 4 runs its dense block beside the experts
        beside = "" if both else self._prefix
        latent = keys.count_or_none("moe_latent_size", "routed_expert_hidden_size")
        found = list(
            expert_mlps(
                latent or hidden,
                self.expert_width,
                self.experts,
                self.experts_per_token,
                prefix=beside,
                matrices=matrices,
            )
        )
        found.append(router(hidden, self.experts, prefix=beside))
        if latent:  # experts work in a smaller space
            found.append(Linear(f"{self._prefix}.fc1_latent_proj", hidden * latent, ways=WHOLE))
            found.append(Linear(f"{self._prefix}.fc2_latent_proj", hidden * latent, ways=WHOLE))
        shared = self._shared_width()
        if shared:
            found += dense_mlp(hidden, shared, prefix=f"{self._prefix}.shared_experts", gated=self.gated)
        if keys.flag("shared_expert_gate"):
            found.append(Linear("mlp.shared_expert_gate", hidden, ways=WHOLE, always_16bit=True))
        if both:
            found += dense_mlp(hidden, self.dense_width, gated=self.gated)
        return tuple(found)

    def _shared_width(self) -> int:
        keys = self._keys
        width = keys.size(
            "shared_expert_intermediate_size",
            "moe_shared_expert_intermediate_size",
            "share_expert_dim",
            "shared_intermediate_size",
        )
        return width or self.expert_width * keys.size(
            "n_shared_experts", "num_shared_experts", "moe_num_shared_experts"
        )


def sparse_layers(keys: Keys, layers: int) -> list[bool]:
    """Return which layers have experts, if the model has any."""
    if "mlp_layer_types" in keys:
        return [kind in {"sparse", "moe"} for kind in keys.per_layer("mlp_layer_types", str, layers)]
    if isinstance(keys.values.get("moe_layer_freq"), list):
        return [flag != 0 for flag in keys.per_layer("moe_layer_freq", int, layers)]
    if "moe_layers_enum" in keys:
        listed = {part.strip() for part in (keys.text("moe_layers_enum") or "").split(",")}
        return [str(layer) in listed for layer in range(layers)]
    if "moe_layers" in keys:
        chosen = set(keys.items("moe_layers", int))
        return [layer in chosen for layer in range(layers)]
    return _by_period(keys, layers)


def _by_period(keys: Keys, layers: int) -> list[bool]:
    first = keys.size("first_k_dense_replace", "num_dense_layers", "moe_layer_start_index")
    every = keys.count_or_none("moe_layer_freq", "moe_layer_interval", "expert_layer_period") or 1
    step = keys.count_or_none("decoder_sparse_step", "interleave_moe_layer_step") or 1
    dense, offset = set(keys.items("mlp_only_layers", int)), keys.size("expert_layer_offset") % every
    return [
        layer >= first and layer not in dense and layer % every == offset and (layer + 1) % step == 0
        for layer in range(layers)
    ]


def _gated(keys: Keys) -> bool:
    """Whether a block has a gate: squared ReLU never does."""
    activation = keys.text("mlp_hidden_act") or keys.text("hidden_act") or ""
    return activation != "relu2" and keys.flag("gated_mlp", default=True)


def _lfm_width(keys: Keys, wide: int) -> int:
    """Return LFM2's width: two thirds of the stated one, rounded up to a multiple."""
    if not keys.flag("block_auto_adjust_ff_dim", default=True):
        return wide
    share = int((keys.number("block_ffn_dim_multiplier") or 1.0) * int(2 * wide / 3))
    multiple = keys.count_or_none("block_multiple_of") or 256
    return -(-share // multiple) * multiple
