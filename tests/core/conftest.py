"""Generated inputs are the same in every run, and no test fails for being slow."""

from hypothesis import HealthCheck, settings

settings.register_profile("core", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("core")
