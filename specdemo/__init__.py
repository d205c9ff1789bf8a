"""specdemo: plain and speculative decoding of one language model, side by side, measured."""

__version__ = "0.1.0"
