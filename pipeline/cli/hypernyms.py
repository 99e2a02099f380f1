"""The command that predicts the hypernyms of a word."""

from __future__ import annotations

import argparse

from pipeline.cli.command import Commands, add_command, columns

HYPERNYMS = """\
Predict the hypernyms of a word, or whether one word is a hypernym of another.

WORD is the name of a concept, such as dog.n.01, or a word, which stands for all concepts
that it names. The concepts with the lowest energy come first; those up to the threshold,
which was chosen on dev, are marked."""


def add(commands: Commands) -> None:
    """Add ``hypernyms``."""
    found = add_command(commands, "hypernyms", HYPERNYMS, _hypernyms)
    found.add_argument("word", metavar="WORD", help="a concept or a word")
    found.add_argument("above", metavar="HYPERNYM", nargs="?", help="a concept or a word that may be a hypernym")
    found.add_argument("--top", type=int, default=10, help="how many hypernyms are shown (%(default)s)")
    found.add_argument("--concepts", default="models/hypernyms/concepts", help="the folder (default: %(default)s)")


def _hypernyms(arguments: argparse.Namespace) -> int:
    from sightword.hypernyms.training.concepts import Concepts

    concepts = Concepts.load(arguments.concepts)
    lines = [("concept", "hypernym", "energy", "accepted")]
    for name in concepts.find(arguments.word):
        if arguments.above is None:
            found = concepts.hypernyms(name, top=arguments.top)
        else:
            others = concepts.find(arguments.above)
            energies = concepts.energy([(name, other) for other in others])
            found = list(zip(others, energies.tolist(), strict=True))
        lines += [
            (name if not place else "", above, f"{energy:.4f}", "yes" if energy <= concepts.threshold else "no")
            for place, (above, energy) in enumerate(found)
        ]
    print(columns(lines))
    return 0
