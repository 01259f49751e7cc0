"""One hypothesis profile for everybody: the same examples everywhere, and no clock to fail on."""

from hypothesis import settings

settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci")
