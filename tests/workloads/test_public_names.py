"""What a package offers is there, and says what it is."""

import inspect
from importlib import import_module

import pytest

PACKAGES = ("workloads", "sim.kv", "sim.scheduling")


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_exists_and_is_documented(package: str) -> None:
    """`__all__` is sorted as ruff wants it, complete, and each name has a docstring of its own."""
    module = import_module(package)
    assert module.__doc__
    for name in module.__all__:
        of = getattr(module, name)
        assert of.__doc__, name
        assert not of.__doc__.startswith(f"{name}("), f"{name} has only the docstring dataclasses give"
        if inspect.isclass(of):
            members = [m for key, m in vars(of).items() if not key.startswith("_") and inspect.isfunction(m)]
            assert all(member.__doc__ for member in members), name
