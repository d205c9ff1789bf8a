"""Settings of all tests: property tests do not fail because a machine is slow, and CI draws the same examples."""

import os
from collections.abc import Iterator

import pytest
import torch
from hypothesis import HealthCheck, settings

settings.register_profile(
    "repository", deadline=None, derandomize="CI" in os.environ, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("repository")


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """Tiny models need one core."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
