"""Trains drafters for the embedded target: `collect` writes text, `fit` learns from it, `score` decodes with them."""
