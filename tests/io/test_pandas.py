"""A stage makes tables without pandas, which is there as soon as a frame is wanted."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

from checkout import change


def test_a_stage_loads_no_pandas_until_a_table_becomes_a_frame(repository, tmp_path):
    shutil.copy(repository / "params.yaml", tmp_path)
    shutil.copy(repository / "dvc.yaml", tmp_path)
    shutil.copytree(repository / "data/raw/sample", tmp_path / "data/raw/sample")
    change(tmp_path / "data/raw/sample/scenes.yaml", pictures__train=1, pictures__dev=1, pictures__test=1)
    code = """if True:
        import runpy, sys
        sys.argv = ["stages", "corpus"]
        runpy.run_module("stages", run_name="__main__")
        assert "pyarrow" in sys.modules and not {"pandas", "torch", "scipy", "h5py"} & sys.modules.keys()
        import pyarrow as pa
        from sightword.io.files import read_table
        frame = read_table("data/corpus/images.parquet", ["image_id", "split"]).to_pandas()
        assert pa.Table.from_pandas(frame).column_names == ["image_id", "split"] and len(frame) == 3
        assert pa.array(frame.split.where(frame.split != "dev")).null_count == 1
    """
    environment = os.environ | {"PYTHONPATH": str(repository)}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
