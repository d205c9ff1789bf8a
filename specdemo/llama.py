"""The Llama forward pass: transformers' weights, a cache that crops for free, compiled code for few rows on the CPU.

Serves the target, small drafters and the four-bit drafter alike, so both lanes profit equally. Also what early exit
needs: the first layers can run ahead and are not computed again. A pass serves one sequence or several: what it costs
is above all the reading of the weights. Checked against transformers' own pass in the tests.
Shapes: T tokens, D hidden, G key/value heads, E head size, R rows of the head, V vocabulary.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812
from transformers import LlamaConfig, LlamaForCausalLM

from specdemo.branches import Parents
from specdemo.causal_lm import tree_mask
from specdemo.kernels.decoder import LayerWeights
from specdemo.kernels.llama import MOST_ROWS, CompiledLlama, Rows, fits
from specdemo.llama_layers import LayerStack, LlamaHead, RotaryTable, joined, normalize, run_layer
from specdemo.llama_session import LlamaSession, Span


class LlamaLM:
    """Weights of a Llama-architecture model; see causal_lm.CausalLM.

    `compiled`: the layers' and the head's weights in another format, for few rows; by default these same, where they
    fit the compiled pass.
    """

    can_crop = can_branch = True

    def __init__(
        self,
        config: LlamaConfig,
        embedding: Tensor,
        layers: LayerStack,
        head: LlamaHead,
        compiled: CompiledLlama | None = None,
    ) -> None:
        self.config = config
        self.embedding = embedding
        self.layers = layers
        self.head = head
        self.compiled = compiled or _compiled(config, layers, head)
        self.vocab_size = int(config.vocab_size)
        self.context_length = int(config.max_position_embeddings)
        self.device = embedding.device
        self.dtype = embedding.dtype
        self.layer_bytes = compiled.layer_bytes if compiled else layers.layer_bytes
        self.head_bytes = compiled.head_bytes if compiled else head.weight.nbytes + head.norm.nbytes
        self.weight_bytes = self.layer_bytes * len(layers) + self.head_bytes
        is_shared = compiled is not None or head.weight.data_ptr() == embedding.data_ptr()
        self.memory_bytes = self.weight_bytes + (0 if is_shared else embedding.nbytes)
        self.rotary = RotaryTable(config, self.device, self.dtype)

    @classmethod
    def from_transformers(cls, model: LlamaForCausalLM) -> "LlamaLM":
        """A loaded model's weights in this pass; the model itself keeps working."""
        layers = LayerStack.from_model(model)
        head = LlamaHead(model.model.norm.weight.detach(), model.lm_head.weight.detach())
        return cls(model.config, model.model.embed_tokens.weight.detach(), layers, head)

    @staticmethod
    def fits(model: object) -> bool:
        """Whether this pass computes exactly what the model's own does."""
        if not isinstance(model, LlamaForCausalLM):
            return False
        config = model.config
        is_plain = not config.attention_bias and not config.mlp_bias and config.hidden_act == "silu"
        return is_plain and config.rope_parameters.get("rope_type") in ("default", "llama3", "linear")

    def open(self, feature_layers: Sequence[int] = ()) -> LlamaSession:
        """A fresh, empty sequence; see causal_lm.CausalLM.open."""
        return LlamaSession(self, feature_layers)

    def cache_bytes(self, num_tokens: int) -> int:
        """See causal_lm.CausalLM.cache_bytes."""
        groups, size = self.config.num_key_value_heads, self.config.head_dim
        return 2 * len(self.layers) * groups * size * self.dtype.itemsize * num_tokens

    @torch.inference_mode()
    def forward_many(
        self,
        sessions: Sequence[LlamaSession],
        token_ids: Sequence[Sequence[int]],
        num_logits: Sequence[int],
        parents: Sequence[Parents] = (),
    ) -> list[Tensor]:
        """See causal_lm.BatchLM. On the compiled pass a row has the bits that it has alone."""
        parents = parents or [()] * len(sessions)
        many = [i for i, ids in enumerate(token_ids) if len(ids) > MOST_ROWS]
        few = [i for i, ids in enumerate(token_ids) if len(ids) <= MOST_ROWS]
        found = {i: sessions[i].forward(token_ids[i], num_logits[i]) for i in many}
        if few:
            parts = ([values[i] for i in few] for values in (sessions, token_ids, num_logits, parents))
            found |= zip(few, self.run_pass(*parts, is_few=True), strict=True)
        return [found[i] for i in range(len(sessions))]

    def run_pass(
        self,
        sessions: Sequence[LlamaSession],
        token_ids: Sequence[Sequence[int]],
        num_logits: Sequence[int],
        parents: Sequence[Parents],
        *,
        is_few: bool,
    ) -> list[Tensor]:
        """Append the tokens to each session; returns the logits after the last `num_logits` of each.

        Tokens that ran ahead resume where they stopped. `parents` as in CausalLMSession.forward. `is_few`: of every
        session, whatever their sum.
        """
        num_rows = [len(ids) for ids in token_ids]
        start = max(session.num_layers_ahead for session in sessions)
        if start:
            hidden = self._behind_first_layers(sessions, token_ids, range(start), is_few=is_few)
        else:
            hidden = self._embed([token_id for ids in token_ids for token_id in ids])
        each = zip(sessions, num_rows, parents, strict=True)
        spans = [Span(session, session.length, num, behind) for session, num, behind in each]
        hidden = self._run_and_keep(spans, hidden, range(start, len(self.layers)), is_few=is_few)
        for span in spans:
            span.session.end_pass(span.num_rows)
        rows = hidden.split(num_rows)
        wanted = [part[len(part) - num :] for part, num in zip(rows, num_logits, strict=True)]
        return list(self.logits(joined(wanted), is_few=is_few).split(list(num_logits)))

    @torch.inference_mode()
    def run_ahead_many(self, sessions: Sequence[LlamaSession], token_ids: Sequence[int], num_layers: int) -> Tensor:
        """Run a token of each session through the first layers, keep its state for `forward`, and return all (B, D)."""
        spans = [Span(session, session.length + len(session.ahead), 1) for session in sessions]
        hidden = self._run(spans, self._embed(token_ids), range(num_layers), is_few=True)
        for session, token_id, row in zip(sessions, token_ids, hidden.split(1), strict=True):
            session.keep_ahead(token_id, row, num_layers)
        return hidden

    @torch.inference_mode()
    def logits(self, hidden: Tensor, *, is_few: bool = False) -> Tensor:
        """Final norm and head behind rows (T, D) of hidden states -> (T, V); see `run_pass`."""
        if not len(hidden):
            return hidden.new_empty((0, self.vocab_size))
        if self.compiled is not None and (is_few or len(hidden) <= MOST_ROWS):
            logits = self.compiled.logits(hidden.contiguous())
        else:
            logits = F.linear(normalize(hidden, self.head.norm, self.config.rms_norm_eps), self.head.weight)
        if self.head.token_ids is None:
            return logits
        full = logits.new_full((len(logits), self.vocab_size), float("-inf"))
        return full.index_copy_(1, self.head.token_ids, logits)

    def _embed(self, token_ids: Sequence[int]) -> Tensor:
        return F.embedding(torch.tensor(list(token_ids), dtype=torch.long, device=self.device), self.embedding)

    def _behind_first_layers(
        self, sessions: Sequence[LlamaSession], token_ids: Sequence[Sequence[int]], layers: range, *, is_few: bool
    ) -> Tensor:
        """All rows: those that ran ahead as they were kept, the others from their embeddings."""
        rest = []
        for session, ids in zip(sessions, token_ids, strict=True):
            num_ahead = len(session.ahead)
            assert [token_id for token_id, _ in session.ahead] == list(ids[:num_ahead]), (
                "what ran ahead must be fed first"
            )
            rest.append(Span(session, session.length + num_ahead, len(ids) - num_ahead))
        unread = [
            token_id for session, ids in zip(sessions, token_ids, strict=True) for token_id in ids[len(session.ahead) :]
        ]
        hidden = self._embed(unread)
        if unread:
            hidden = self._run([span for span in rest if span.num_rows], hidden, layers, is_few=is_few)
        pieces = []
        for span, rows in zip(rest, hidden.split([span.num_rows for span in rest]), strict=True):
            pieces += [*(row for _, row in span.session.ahead), rows]
        return torch.cat(pieces)

    def _run_and_keep(self, spans: Sequence[Span], hidden: Tensor, layers: range, *, is_few: bool) -> Tensor:
        """The last layers of a pass; stops at the layers whose output is a feature to keep a copy of it."""
        wanted = spans[0].session.feature_layers
        assert all(span.session.feature_layers == wanted for span in spans), "one pass keeps one kind of features"
        kept = [hidden] * wanted.count(layers.start)
        for end in sorted({*wanted, layers.stop} - {0, layers.start}):
            hidden = self._run(spans, hidden, range(layers.start, end), is_few=is_few)
            layers = range(end, layers.stop)
            feature = hidden if layers else normalize(hidden, self.head.norm, self.config.rms_norm_eps)
            kept += [feature] * wanted.count(end)
        if wanted:
            features = torch.cat(kept, -1).split([span.num_rows for span in spans])
            for span, rows in zip(spans, features, strict=True):
                span.session.features = rows
        return hidden

    def _run(self, spans: Sequence[Span], hidden: Tensor, layers: range, *, is_few: bool) -> Tensor:
        """Some layers over the rows (T, D) of all spans."""
        caches = [span.session.buffer(span.end) for span in spans]
        rotary = joined([self._rotary_of(span) for span in spans], 1)
        if self.compiled is not None and (is_few or len(hidden) <= MOST_ROWS):
            hidden = hidden.clone()
            each = zip(caches, spans, strict=True)
            rows = [Rows(cache, span.start, span.num_rows, span.branches()) for cache, span in each]
            self.compiled.run(hidden, rows, rotary, layers)
            return hidden
        masks = [tree_mask(span.parents, span.start).to(self.device) if span.parents else None for span in spans]
        for index in layers:
            each = zip(caches, spans, masks, strict=True)
            sequences = [(cache[:, index, :, : span.end], span.num_rows, mask) for cache, span, mask in each]
            hidden = run_layer(self.layers, index, hidden, sequences, rotary, self.config.rms_norm_eps)
        return hidden

    def _rotary_of(self, span: Span) -> Tensor:
        rows = self.rotary.rows(span.start, span.end)
        return rows[:, [place - span.start for place in span.positions()]] if span.parents else rows


def _compiled(config: LlamaConfig, layers: LayerStack, head: LlamaHead) -> CompiledLlama | None:
    if not fits(head.weight, *(tensor.shape[-1] for tensor in layers.tensors()), config.head_dim):
        return None
    arrays = LayerWeights(*(tensor.numpy() for tensor in layers.tensors()), float(config.rms_norm_eps))
    return CompiledLlama(arrays, head.norm.numpy(), head.weight.numpy())
