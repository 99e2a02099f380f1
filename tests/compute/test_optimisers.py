"""The optimisers are torch's own, and neither they nor networks of pictures load torch's compiler."""

from __future__ import annotations

import subprocess
import sys

import torch

from sightword.compute import optimisers


def test_steps_give_the_numbers_of_torch_also_from_a_saved_state():
    def trained(kind):
        torch.manual_seed(3)
        weights = torch.nn.Parameter(torch.randn(5, 4))
        first = kind([weights], lr=0.1, weight_decay=0.1, fused=True)
        for turn in range(4):
            if turn == 2:
                second = kind([{"params": [weights]}], lr=0.2, weight_decay=0.1, fused=True)
                second.load_state_dict(first.state_dict())
                first = second
            first.zero_grad()
            (weights**3).sum().backward()
            first.step()
        return weights.detach()

    assert torch.equal(trained(optimisers.Adam), trained(torch.optim.Adam))


def test_training_features_and_semantic_scores_leave_torchs_compiler_scikit_learn_and_matplotlib_alone(tmp_path):
    code = """if True:
        import os, sys, torch
        from PIL import Image
        from sightword import FeaturesSettings, ResizeSettings, extract
        from sightword.compute.devices import OwnRandom
        from sightword.compute.optimisers import Adam
        from sightword.evaluation.semantics import breakdown, evaluation, tables
        from sightword.evaluation.semantics.relatedness import TfIdf
        from sightword.features import vision
        from sightword.features.networks import skeleton
        from sightword.features.networks import find_backbone
        with OwnRandom(0):
            network = vision.models.get_model("shufflenet_v2_x0_5", weights=None).eval()
        adam = Adam(network.parameters(), fused=True)
        network(torch.zeros(1, 3, 64, 64)).sum().backward()
        adam.step()
        adam.zero_grad()
        skeleton(find_backbone("efficientnet_lite2"))
        TfIdf(["one dog"]).prepare(["dogs"])
        Image.new("RGB", (64, 64)).save(sys.argv[1])
        settings = FeaturesSettings(backbone="shufflenet_v2_x0_5", weights="random", crop=64)
        extract([sys.argv[1]], settings, ResizeSettings(side=64))
        assert not {"torch._dynamo", "sympy", "sklearn", "matplotlib"} & sys.modules.keys()
        os.environ["TORCHDYNAMO_DISABLE"] = "1"  # the operator is called, and no kernel of it compiled
        from torchvision.ops import roi_align  # what was put off still works
        assert roi_align(torch.ones(1, 1, 4, 4), [torch.tensor([[0.0, 0.0, 2.0, 2.0]])], 1).shape == (1, 1, 1, 1)
    """
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "one.png")], check=True)
