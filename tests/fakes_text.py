"""Real byte-level BPE tokenizers, trained on a few sentences, and texts that are awkward to part."""

from collections.abc import Sequence

from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from tests.fakes import EOS, START

END = "<|im_end|>"
STORY = (
    "The unbelievable lighthouse keeper counted the waves, one by one, until the morning came; then he slept.\n\n"
    "def area(width, height):\n    return width * height  # 你好，世界\n\nHe said: it's fine 👩‍🚀🎉!  Twice  over."
)
OTHER = (
    "A keeper of bees, believing in work, came over the hills. Returning, she said: the light is unbearable. 1 2 3\n"
    "for wave in waves:\n    print(wave)\n 世界 你好 🎉"
)
QUESTION = ["<|im_start|>", "user\nTell the story.", "<|im_end|>", "\n", "<|im_start|>", "assistant\n"]
CONTROLS = (EOS, START, END)
FOREIGN_CONTROLS = ("<s>", "</s>")


def train_tokenizer(
    texts: Sequence[str], size: int, controls: Sequence[str], bos: str | None = None
) -> PreTrainedTokenizerFast:
    """Byte-level BPE, trained for real."""
    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    core.train_from_iterator(
        texts, trainers.BpeTrainer(vocab_size=size, initial_alphabet=alphabet, show_progress=False)
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=core, bos_token=bos, eos_token=controls[-1], additional_special_tokens=list(controls[:-1])
    )


def target_tokenizer() -> PreTrainedTokenizerFast:
    """Words of the story, and the chat format's control tokens."""
    return train_tokenizer([STORY * 3, OTHER], 360, CONTROLS)


def drafter_tokenizer(controls: Sequence[str]) -> PreTrainedTokenizerFast:
    """Words of another text, so that most of the story's are parted otherwise."""
    return train_tokenizer([OTHER * 3, STORY], 320, controls)


PARTS = st.sampled_from(
    [
        *(" the", "The", "unbeliev", "able", " they", "x" * 40, "'s", "!", "...", "1", "23", "é"),
        *(" ", "  ", "\n\n", "\t", "def f(x):\n    ", "你好", "界", "👩\u200d🚀", "🎉", "\ufffd", "\u200d"),
        *("<|im_end|>", "<|im_start|>", "</s>"),
    ]
)
TEXTS = st.lists(PARTS, max_size=12).map("".join)
