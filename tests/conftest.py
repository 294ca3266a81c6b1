"""Property tests draw the same examples in every run; `--hypothesis-profile random` draws others."""

from hypothesis import settings

settings.register_profile("same", derandomize=True, deadline=None)
settings.register_profile("random", deadline=None)
settings.load_profile("same")
