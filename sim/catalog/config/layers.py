"""Puts the layers of a config together: mixer, feed-forward block, and what differs from layer to layer."""

from dataclasses import replace
from functools import cache

from sim.catalog.config.attention import Heads, attention_layer, main_heads, window_heads
from sim.catalog.config.feed_forward import FeedForward, sparse_layers
from sim.catalog.config.keys import Keys
from sim.catalog.config.latent import indexing_layers, latent_layer
from sim.catalog.config.layer_kinds import ALONE, LayerKind, layer_kinds
from sim.catalog.config.recurrent import recurrent_layer
from sim.catalog.weights import WHOLE, Layer, Linear

_ATTENDS = {LayerKind.FULL, LayerKind.WINDOW, LayerKind.CHUNK, LayerKind.BOTH}


class LayerReader:
    """Builds each kind of layer once."""

    def __init__(self, keys: Keys, hidden_size: int, layers: int) -> None:
        self._keys, self._hidden, self._count = keys, hidden_size, layers
        self.kinds = layer_kinds(keys, layers)
        self.latent = "kv_lora_rank" in keys
        self._alone = not ALONE.isdisjoint(self.kinds)
        self.feed_forward = FeedForward(keys, hidden_size, prefix="mixer" if self._alone else "mlp")
        attends = not self.latent and any(kind in _ATTENDS for kind in self.kinds)
        self.heads = main_heads(keys) if attends else None
        self._window_heads = None if self.heads is None else window_heads(keys, self.heads)
        self._mixer = cache(self._build_mixer)
        self._layer = cache(self._build_layer)

    def read(self) -> tuple[Layer, ...]:
        """Return all hidden layers, in order."""
        shared = min(self._keys.size("num_kv_shared_layers"), self._count)
        sparse, indexes = self._sparse(), indexing_layers(self._keys, self._count)
        return tuple(
            self._layer(kind, sparse[layer], indexes[layer], layer >= self._count - shared)
            for layer, kind in enumerate(self.kinds)
        )

    def draft_layers(self) -> tuple[Layer, ...]:
        """Return the multi-token-prediction layers: full attention, and a projection of two inputs."""
        count = self._keys.size("num_nextn_predict_layers", "mtp_num_hidden_layers")
        if not count or (self.heads is None and not self.latent):
            return ()
        sparse = self.feed_forward.experts > 0
        body = self._mixer(LayerKind.FULL, indexes="index_head_dim" in self._keys, shares_kv=False)
        joined = Linear("eh_proj", 2 * self._hidden**2, ways=WHOLE)
        linears = (*body.linears, *self.feed_forward.block(sparse=sparse), joined)
        return (replace(body, linears=linears),) * min(count, self._count)

    def _sparse(self) -> list[bool]:
        if self._alone:
            return [kind is LayerKind.EXPERTS for kind in self.kinds]
        return sparse_layers(self._keys, self._count)

    def _build_layer(self, kind: LayerKind, sparse: bool, indexes: bool, shares_kv: bool) -> Layer:  # noqa: FBT001
        mixer = self._mixer(kind, indexes=indexes, shares_kv=shares_kv)
        return replace(mixer, linears=(*mixer.linears, *self._block(kind, sparse=sparse, shares_kv=shares_kv)))

    def _block(self, kind: LayerKind, *, sparse: bool, shares_kv: bool) -> tuple[Linear, ...]:
        keys, feed_forward = self._keys, self.feed_forward
        mixer_only = self._alone and kind not in ALONE
        if mixer_only or ("state_size" in keys and "conv_kernel" in keys):  # plain Mamba has no blocks at all
            return ()
        double = shares_kv and keys.flag("use_double_wide_mlp")
        found = feed_forward.block(sparse=sparse, width=2 * feed_forward.dense_width if double else None)
        per_layer = keys.size("hidden_size_per_layer_input")
        if per_layer:
            size = self._hidden * per_layer
            found += (Linear("per_layer_input_gate", size), Linear("per_layer_projection", size))
        return found

    def _build_mixer(self, kind: LayerKind, *, indexes: bool, shares_kv: bool) -> Layer:
        if kind in ALONE:
            return Layer((), ())
        if kind is LayerKind.RECURRENT:
            return recurrent_layer(self._keys, self._hidden)
        if self.latent:
            return latent_layer(self._keys, self._hidden, indexes=indexes)
        attention = self._attention(kind, shares_kv=shares_kv)
        if kind is not LayerKind.BOTH:
            return attention
        recurrent = recurrent_layer(self._keys, self._hidden)
        return Layer(attention.kv + recurrent.kv, attention.linears + recurrent.linears, attention.pair_flops)

    def _attention(self, kind: LayerKind, *, shares_kv: bool) -> Layer:
        heads: Heads | None = self._window_heads if kind is LayerKind.WINDOW else self.heads
        assert heads is not None
        return attention_layer(self._keys, kind, heads, self._hidden, shares_kv=shares_kv)
