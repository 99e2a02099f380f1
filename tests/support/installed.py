"""Programs that run with chosen packages alone, and a small encoder that they load."""

from __future__ import annotations

import importlib.metadata as metadata
import json
import subprocess
from pathlib import Path

import numpy as np
import torch
from packaging.requirements import Requirement

from sightword.captions.vocabulary import Vocabulary
from sightword.encoder.parts import parts_of
from sightword.encoder.sentence_encoder import SentenceEncoder
from sightword.model.encoders import Encoders
from sightword.model.settings import ModelSettings

TEXTS = ["a dog runs", "", "two big dogs run in the snow ."]
CORE = {"torch", "numpy", "safetensors"}
EXTRAS = {"dvc", "pandas", "torchvision", "pyarrow", "h5py", "pydantic", "tqdm", "yaml", "scipy", "flask"}

ENCODE = """
import json, sys
sys.path[:0] = sys.argv[3:]
from sightword import SentenceEncoder
encoder = SentenceEncoder.from_pretrained(sys.argv[1])
texts = json.loads(sys.argv[2])
captions = encoder.encode(texts, show_progress_bar=True)
images = encoder.encode_images([[1.0] * encoder.features_width, [0.5] * encoder.features_width])
print(json.dumps({
    "captions": captions.tolist(),
    "images": images.tolist(),
    "similarity": encoder.similarity(captions, images).tolist(),
    "modules": sorted({name.split(".")[0] for name in sys.modules}),
}))
"""


def needed(names: list[str]) -> set[str]:
    """Return the distributions ``names`` and all that they need, without extras, as far as they are installed."""
    found: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        try:
            requires = metadata.requires(name) or []
        except metadata.PackageNotFoundError:
            continue
        if name not in found:
            found.add(name)
            waiting += [one.name for one in map(Requirement, requires) if "extra" not in str(one.marker)]
    return found


def link_packages(folder: Path, names: list[str]) -> None:
    """Fill a folder of installed packages with links to these distributions and to all that they need."""
    for name in needed(names):
        for top in {file.parts[0] for file in metadata.files(name) or [] if file.parts[0] not in ("..", "__pycache__")}:
            if not (folder / top).exists():
                (folder / top).symlink_to(metadata.distribution(name).locate_file(top))


def run(*command: object, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, **options)


def saved_encoder(folder: Path) -> SentenceEncoder:
    """Return a small encoder, after it was saved."""
    torch.manual_seed(0)
    model = ModelSettings(embedding=5, hidden=6, attention=4)
    vocabulary = Vocabulary.build(TEXTS)
    networks = [Encoders(len(vocabulary), 7, model.shape) for _ in range(2)]
    made = SentenceEncoder(parts_of(networks, vocabulary, model.shape))
    made.save(folder)
    return made


def check_embeddings(done: subprocess.CompletedProcess[str], encoder: SentenceEncoder) -> None:
    """Compare what ``ENCODE`` printed with the embeddings of this process."""
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    images = encoder.encode_images([[1.0] * encoder.features_width, [0.5] * encoder.features_width])
    assert np.abs(np.array(found["captions"]) - encoder.encode(TEXTS)).max() < 1e-6
    assert np.abs(np.array(found["images"]) - images).max() < 1e-6
    assert np.abs(np.array(found["similarity"]) - encoder.similarity(encoder.encode(TEXTS), images)).max() < 1e-6
    assert not EXTRAS & set(found["modules"])
