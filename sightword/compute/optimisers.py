"""torch's Adam without torch's compiler, whose import takes a second at the start of each training.

torch wraps some methods of an optimiser for ``torch.compile``, and the wrappers load the compiler whether it is used or
not. The class here calls the same methods without the wrappers: the same numbers.
"""

from __future__ import annotations

from inspect import unwrap

import torch
from torch.optim import Optimizer


class Adam(torch.optim.Adam):
    """:class:`torch.optim.Adam`."""

    step = torch.no_grad()(unwrap(torch.optim.Adam.step))
    add_param_group = unwrap(Optimizer.add_param_group)
    zero_grad = unwrap(Optimizer.zero_grad)
    state_dict = unwrap(Optimizer.state_dict)
    load_state_dict = unwrap(Optimizer.load_state_dict)
