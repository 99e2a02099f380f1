"""torchvision can be imported, whatever torch stands beside it."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from sightword.features import vision


def test_classifiers_are_listed() -> None:
    assert {"resnet152", "densenet169", "vgg19"} <= set(vision.classifiers())


@pytest.mark.slow
def test_with_a_fitting_torch_nothing_is_done() -> None:
    """A stand-in for a torchvision that imports at once."""
    code = (
        "import sys, types\n"
        "good = types.ModuleType('torchvision'); good.models = types.ModuleType('torchvision.models')\n"
        "sys.modules.update({'torchvision': good, 'torchvision.models': good.models})\n"
        "from sightword.features import vision\n"
        "assert vision.torchvision is good and vision._libraries == []\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_operators_are_known() -> None:
    assert torch.ops.torchvision.nms is not None
