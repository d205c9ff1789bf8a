"""Shapes of the tiny models that tests run, one of each kind of cache."""

from collections.abc import Callable

from transformers import (
    Gemma2Config,
    GPTNeoXConfig,
    Lfm2Config,
    LlamaConfig,
    MambaConfig,
    MistralConfig,
    PreTrainedConfig,
    Qwen2Config,
    Qwen3_5TextConfig,
    Qwen3NextConfig,
)

VOCAB_SIZE = 259
CONTEXT = 256
_SHAPE = {
    "vocab_size": VOCAB_SIZE,
    "hidden_size": 128,
    "intermediate_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": CONTEXT,
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": None,
    "initializer_range": 0.15,
}
_WINDOW = 8
_EXPERTS = {
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
    "shared_expert_intermediate_size": 32,
    "mlp_only_layers": [0, 1, 2],
}
_DELTA_NET = {
    "head_dim": 32,
    "linear_num_value_heads": 4,
    "linear_num_key_heads": 2,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 16,
    "layer_types": ["linear_attention", "linear_attention", "full_attention"],
}
CONFIGS: dict[str, Callable[[], PreTrainedConfig]] = {
    "llama": lambda: LlamaConfig(**_SHAPE),
    "qwen2": lambda: Qwen2Config(**_SHAPE),
    "gpt-neox": lambda: GPTNeoXConfig(**_SHAPE),
    "mistral": lambda: MistralConfig(**_SHAPE, sliding_window=_WINDOW),
    "gemma2": lambda: Gemma2Config(**_SHAPE, head_dim=8, sliding_window=_WINDOW, tie_word_embeddings=False),
    "qwen3_5": lambda: Qwen3_5TextConfig(**_SHAPE, **_DELTA_NET),
    "qwen3_next": lambda: Qwen3NextConfig(**_SHAPE, **_DELTA_NET, **_EXPERTS),
    "mamba": lambda: MambaConfig(**_SHAPE, state_size=4, tie_word_embeddings=False),
    "lfm2": lambda: Lfm2Config(**_SHAPE, layer_types=["conv", "full_attention", "conv"]),
}
RECURRENT = ("qwen3_5", "qwen3_next", "lfm2")
CROPPABLE = ("llama", "qwen2", "gpt-neox", "mistral", "gemma2", *RECURRENT)
NOT_CROPPABLE = ("mamba",)
