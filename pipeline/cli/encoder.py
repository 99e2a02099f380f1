"""The command that exports an encoder."""

from __future__ import annotations

import argparse
from pathlib import Path

from pipeline.cli.command import Commands, add_command

EXPORT = """\
Write an encoder as ONNX, for programs without PyTorch.

OUT becomes a folder with captions.onnx, images.onnx and export.json: the encoder of
captions, the encoder of pictures' features, and a description of their inputs, such as
the id of each character. ONNX Runtime runs both graphs once, and must give the
embeddings of the encoder. Needs the extra: pip install 'sightword[export]'."""


def add(commands: Commands) -> None:
    """Add ``export``."""
    export = add_command(commands, "export", EXPORT, _export, extra="export")
    export.add_argument("encoder", metavar="ENCODER", help="the folder of an encoder, such as models/encoder")
    export.add_argument("out", metavar="OUT", help="a new folder, or one with an earlier export")


def _export(arguments: argparse.Namespace) -> int:
    from sightword.encoder.export import CAPTIONS, DESCRIPTION, IMAGES, write_export
    from sightword.encoder.sentence_encoder import SentenceEncoder

    encoder = SentenceEncoder.load(arguments.encoder)
    difference = write_export(arguments.out, encoder)
    folder = Path(arguments.out)
    for name in (CAPTIONS, IMAGES, DESCRIPTION):
        print(f"{folder / name}  {(folder / name).stat().st_size / 1e6:.1f} MB")
    print(f"ONNX Runtime and the encoder differ by {difference:.1e} at most.")
    return 0
