"""Profiles: HYPOTHESIS_PROFILE=thorough looks further than every test run can."""

import os

from hypothesis import HealthCheck, settings

settings.register_profile("default", max_examples=40, derandomize=True, deadline=None, database=None)
settings.register_profile(
    "thorough", max_examples=3000, deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))
