"""Sweeps and advice on a loaded target: see `sweeps` and `advice` for what is asked and what comes back."""

from specdemo.tune.advisor import advise
from specdemo.tune.sweep import run_sweep

__all__ = ["advise", "run_sweep"]
