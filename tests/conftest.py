"""Settings of all tests: property tests do not fail because a machine is slow, and CI draws the same examples."""

import os

from hypothesis import HealthCheck, settings

settings.register_profile(
    "repository", deadline=None, derandomize="CI" in os.environ, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("repository")
