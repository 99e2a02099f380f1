"""The section ``train`` of ``grounded/params.yaml``: scenarios, and the seeds of their training runs."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import Field, ValidationError, model_validator

from sightword.messages import guess
from sightword.settings import MAX_SEED, Settings, explain

OWN_STARTS = ("skipthought", "scratch")
"""The starts that are not names of saved encoders."""
_NAME = re.compile(r"[a-z][a-z0-9_]*(-[a-z][a-z0-9_]*)?")

Weight = Annotated[float, Field(ge=0)]


class Common(Settings):
    """The parameters of a scenario; defaults as in the paper or, where the paper has none, in the released code."""

    judged: Literal["sentence", "grounded", "visual"] = "sentence"
    """The space of the scenario's scores: ``sentence``, s; ``grounded``, g(s); ``visual``, f(s) or, of a sequential
    scenario, the predicted picture."""
    start: str = "skipthought"
    """Initial weights of the sentence encoder: ``skipthought``, the encoder T of text; ``scratch``, random weights of
    the same shape; or the name of a saved encoder in ``train.encoders``."""
    states: int | None = Field(None, gt=0)
    """States of the recurrent layer of a ``scratch`` encoder; null: as many as T has, and with other starts."""
    batch: int = Field(32, ge=2)
    """Pictures in a batch; each brings two captions where the scenario needs them, else one."""
    steps: int = Field(10_000, ge=1)
    """Batches of the training run."""
    rate: float = Field(0.0008, gt=0)
    """Learning rate of Adam at the start; it falls continuously, by half in 400,000 batches."""
    cluster_loss: Literal["hinge", "infonce"] = "hinge"
    """The cluster loss: Bordes et al. 2019, equation 2, or the cross-entropy of the right caption in the batch."""
    space: Literal["mlp", "identity"] = "mlp"
    """The grounded space: g(s) of a network of two layers, or s itself."""
    hidden: int = Field(512, gt=0)
    """Hidden units of g and of f."""
    width: int = Field(512, gt=0)
    """Dimensions of the grounded space of g."""
    text: Weight = 1.0
    """Weight of the text's loss L_T. Without another weight the start is kept as it is, and nothing is trained, unless
    ``pictures`` is ``none``."""
    cluster: Weight = 0.0
    """Weight of the cluster loss (alpha_C in Bordes et al. 2019, equation 4; published: 0.01)."""
    perceptual: Weight = 0.0
    """Weight of the perceptual loss (alpha_P in Bordes et al. 2019, equation 4; published: 0.01)."""
    projection: Weight = 0.0
    """Weight of the cross-modal projection (CM): f(s) is nearer to the caption's picture than to others."""
    ranking: Weight = 0.0
    """Weight of Cap2Img (Kiela et al. 2018): captions and pictures rank each other, by a linear map of s."""
    cap2cap: Weight = 0.0
    """Weight of Cap2Cap (Kiela et al. 2018): a decoder, a GRU here, predicts another caption of the picture from s."""
    captions_as_text: Weight = 0.0
    """Weight of the text's loss of captions in random order: a control that sees captions and no pictures."""
    pictures: Literal["real", "shuffled", "none"] = "real"
    """``shuffled``: the pictures exchange their features at random, a control. ``none``: the text alone trains on for
    ``steps`` batches, a control without pictures and captions."""
    clusters: Literal["real", "shuffled"] = "real"
    """``shuffled``: captions are dealt to pictures at random, a control."""
    sequential: bool = False
    """SEQ: a linear regression from T's vectors to pictures, concatenation, PCA to T's width; nothing is trained."""
    concatenate: bool = False
    """The saved encoder is [T ; trained encoder], as GroundSent."""
    precision: Literal["fp32", "bf16"] = "fp32"
    """``bf16``: bfloat16 autocast around the recurrent layer in training: faster, with other last digits."""
    validate_every: int = Field(500, ge=1)
    """Batches from one measurement of the losses on dev to the next, besides the one at the end."""

    @property
    def trains(self) -> bool:
        """Whether anything is trained: a weight of the captions is above zero, or the text trains on alone."""
        return self.learns_captions or self.pictures == "none"

    @property
    def learns_captions(self) -> bool:
        """Whether a weight of the captions is above zero."""
        return any((self.pairs_captions, self.compares_pictures, self.captions_as_text))

    @property
    def pairs_captions(self) -> bool:
        """Whether a loss needs two captions of a picture."""
        return bool(self.cluster or self.cap2cap)

    @property
    def compares_pictures(self) -> bool:
        """Whether a loss needs the features of pictures."""
        return bool(self.perceptual or self.projection or self.ranking)

    @property
    def has_grounded(self) -> bool:
        """Whether the encoder has a trained space g(s) besides s."""
        return self.space == "mlp" and bool(self.cluster or self.perceptual)


class Scenario(Common):
    """One scenario: parameters that fit together."""

    @model_validator(mode="after")
    def _fits_together(self) -> Scenario:
        if self.perceptual and self.batch < 3:
            raise ValueError("a batch of 2 has one pair of pictures: Pearson's correlation needs a batch of 3 or more")
        if self.concatenate and not self.trains and self.start == "skipthought":
            raise ValueError("concatenate joins T with itself: give a weight above zero, or another start")
        if self.states is not None and self.start != "scratch":
            raise ValueError(f"states is {self.states} with start {self.start!r}: only a scratch encoder takes states")
        if self.pictures == "none" and (self.learns_captions or not self.text):
            raise ValueError("pictures none trains on with the text alone: give text a weight, and no other loss")
        if self.sequential and (self.trains or self.concatenate or self.start != "skipthought"):
            raise ValueError("sequential trains nothing and starts from skipthought: no weights, no concatenate")
        sees = self.compares_pictures or self.sequential
        for name, used in (("pictures", sees), ("clusters", sees or self.pairs_captions)):
            if getattr(self, name) == "shuffled" and not used:
                raise ValueError(f"{name} shuffled changes nothing here: no loss with a weight sees {name}")
        for name in ("text", "captions_as_text", "cap2cap"):
            if self.trains and getattr(self, name) and self.start not in OWN_STARTS:
                raise ValueError(
                    f"{name} has a weight with start {self.start!r}: decoders are for T's own shape; set 0"
                )
        spaces = {"sentence": True, "grounded": self.has_grounded, "visual": bool(self.projection) or self.sequential}
        if not spaces[self.judged]:
            needs = {"grounded": "space: mlp and cluster or perceptual", "visual": "projection, or sequential"}
            raise ValueError(f"judged {self.judged} is a space that nothing trains; it needs {needs[self.judged]}")
        return self


Value = bool | int | float | str | None


class GroundSettings(Settings):
    """Scenarios of the grounded space. A training run is one of them with one seed."""

    seeds: list[Annotated[int, Field(ge=0, le=MAX_SEED)]] = Field(default_factory=lambda: [0], min_length=1)
    """Seeds of the initial weights, batches and controls; each scenario runs once with each."""
    run: list[str] = Field(min_length=1)
    """Names of the scenarios that run."""
    encoders: str = "data/raw/starts"
    """Folder of other saved encoders, each in a subfolder, from which a scenario can start."""
    common: Common
    """The parameters of all scenarios."""
    scenarios: dict[str, dict[str, Value]]
    """What differs from ``common`` in each scenario, by name: lower-case letters, digits, ``_`` and at most one ``-``;
    each part begins with a letter."""

    def scenario(self, name: str) -> Scenario:
        """Return the parameters of a scenario; ValueError if there is none, or a parameter is wrong."""
        if name not in self.scenarios:
            known = ", ".join(self.scenarios) or "none"
            raise ValueError(f"no scenario is called {name!r}{guess(name, self.scenarios)}; known: {known}")
        try:
            return Scenario.model_validate(self.common.model_dump() | self.scenarios[name])
        except ValidationError as error:
            raise ValueError(explain(Scenario, error.errors()[0], f"scenarios.{name}")) from None

    @model_validator(mode="after")
    def _names(self) -> GroundSettings:
        for name in self.scenarios:
            if not _NAME.fullmatch(name):
                expected = "lower-case letters, digits, _ and at most one -, each part begins with a letter"
                raise ValueError(f"scenarios.{name!r} is no name of a scenario; expected {expected}")
        lists: dict[str, list[str]] = {"run": self.run, "seeds": list(map(str, self.seeds))}
        for key, values in lists.items():
            if twice := [value for value in values if values.count(value) > 1]:
                raise ValueError(f"{key} has {twice[0]} twice")
        for name in (*self.run, *self.scenarios):
            self.scenario(name)
        return self
