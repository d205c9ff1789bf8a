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


_ONE_AFTER_THE_OTHER = ("browser", "integration")
"""Folders whose tests share what is dear to make, a browser and the embedded target: one worker runs them all."""


def pytest_configure() -> None:
    """A worker has a core to itself."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        torch.set_num_threads(1)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Says to the distribution which tests stay together."""
    for item in items:
        folder = item.path.parent.name
        if folder in _ONE_AFTER_THE_OTHER:
            item.add_marker(pytest.mark.xdist_group(folder))


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """Tiny models need one core."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
