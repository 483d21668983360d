"""extract: what the repository held at a commit, for contestants from before."""

import io
import subprocess
import tarfile
from pathlib import Path

ROOT = Path(__file__).parents[2]


def extract(commit: str, folder: str, *paths: str) -> None:
    """Writes paths of the repository, as they were at a commit, into a folder."""
    archive = subprocess.run(["git", "archive", commit, *paths], cwd=ROOT, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        files.extractall(folder, filter="data")
