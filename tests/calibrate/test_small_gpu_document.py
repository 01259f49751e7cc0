"""The profile of the 8 GB class: from single requests, and nothing else; the shipped file is what the module makes."""

import ast
import inspect

import pytest

from calibrate import small_gpu_document
from calibrate.profile_file import profile_text
from calibrate.small_gpu_document import PUBLISHED, fit, predicted_s
from sim.steptime.device import DeviceProfile
from sim.steptime.pricing import load_any
from sim.steptime.profile import SHIPPED

SEVERAL_REQUESTS = {831, 383, 792, 842, 0.666, 1.606, 0.223, 0.349, 5.7, 2.1, 1.37, 5.4, 12.5, 35.4, 0.77, 1.8} | {
    0.94, 58, 6.5, 26.4, 0.069, 0.129, 0.227, 0.445, 0.481, 0.461, 1557, 1503, 7.2, 3.4
}  # fmt: skip


@pytest.fixture(scope="module")
def shipped() -> DeviceProfile:
    """Return the file as it ships."""
    profile = load_any("8gb-class")
    assert isinstance(profile, DeviceProfile)
    return profile


def test_single_requests_come_out_within_five_percent(shipped: DeviceProfile) -> None:
    """Three models, with CUDA graphs and without; the prefill; with a hit and without."""
    errors = [found / figure.given_s - 1 for found, figure in zip(predicted_s(shipped), PUBLISHED, strict=True)]
    assert len(errors) == 15
    assert max(map(abs, errors)) < 0.05


def test_no_figure_of_company_stands_in_the_module() -> None:
    """What the scenarios are judged by is no input."""
    tree = ast.parse(inspect.getsource(small_gpu_document))
    numbers = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    assert not {number for number in numbers if isinstance(number, int | float)} & SEVERAL_REQUESTS


def test_the_shipped_file_is_what_the_module_makes() -> None:
    """Digit for digit."""
    assert profile_text(fit()) == (SHIPPED / "8gb-class.yaml").read_text(encoding="utf-8")
