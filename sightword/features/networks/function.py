"""Networks of one's own: ``package.module:function``, a function that returns the network, its transform and a name."""

from __future__ import annotations

import copy
import functools
import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from torch import nn

from sightword.errors import FeaturesError
from sightword.features.networks.files import network_sha256
from sightword.features.networks.network import FeatureNetwork, Library, OwnTransform
from sightword.features.settings import PACKAGE
from sightword.io.modules import import_here
from sightword.messages import did_you_mean, first_line, quote

_NAME = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")


@dataclass(frozen=True)
class Function(Library):
    """A network that a function returned; the description of the function is the feature point."""

    transform: OwnTransform
    network: nn.Module = field(repr=False)
    root: Path | None
    """The folder of the function's top-level module or package."""

    @functools.cached_property
    def configuration(self) -> str:
        """The sha256 of the function's files: another function may give the same weights another meaning."""
        return network_sha256(self.name, self.root) if self.root else ""

    @property
    def own(self) -> OwnTransform:
        """The transform that the function returned."""
        return self.transform

    @property
    def accepted(self) -> list[str]:
        """The names of weights that are no file."""
        return [PACKAGE]

    def classifier_key(self, key: str) -> bool:
        """Return False: a file has all weights."""
        del key
        return False

    def made(self, *, published: bool) -> nn.Module:
        """Return a copy of the network in single precision, with the weights that the function gave it."""
        del published
        return copy.deepcopy(self.network).float()

    def cut(self, network: nn.Module) -> FeatureNetwork:
        """Return the network, whose output is the feature."""
        return self.measured(network)


def find(name: str, feature_point: str) -> Function:
    """Call a function and return its network.

    Raises:
        FeaturesError: there is no such function, it returns something else, or its description is not
            ``feature_point``, which may be empty.
    """
    where = f"backbone {quote(name)}"
    if not _NAME.fullmatch(name):
        expected = "a name of torchvision, timm:NAME or package.module:function"
        raise FeaturesError("is not the name of a network", where=where, expected=expected)
    module_name, _, function_name = name.partition(":")
    try:
        module = import_here(module_name)
    except (ImportError, SyntaxError) as error:  # other errors of its code are shown as they are
        near = did_you_mean(module_name, ["timm"])
        raise FeaturesError(f"cannot be imported ({first_line(error)})", where=where, todo=near) from None
    function: Any = getattr(module, function_name, None)
    if not callable(function):
        what, near = f"{module_name} has no such function", did_you_mean(function_name, vars(module))
        raise FeaturesError(what, where=where, todo=near)
    expected = "(torch.nn.Module, {'crop': 224, 'mean': [..], 'std': [..]}, 'description')"
    try:
        network, transform, description = returned = function()
        own = OwnTransform(**transform)
        mean, std = (tuple(map(float, values)) for values in (own.mean, own.std))
        fits = isinstance(network, nn.Module) and len(mean) == len(std) == 3 and min(std) > 0 and own.crop > 0
    except (TypeError, ValueError) as error:
        raise FeaturesError(
            f"the function returns another thing ({first_line(error)})", where=where, expected=expected
        ) from None
    if not fits or feature_point not in ("", description):
        raise FeaturesError(f"the function returns {quote(returned)}", where=where, expected=feature_point or expected)
    file = getattr(module, "__file__", None)
    root = Path(file).parents[module_name.count(".") + (Path(file).stem == "__init__")] if file else None
    return Function(name, description, replace(own, mean=mean, std=std), network.eval(), root)
