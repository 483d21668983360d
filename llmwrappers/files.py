"""write_atomically: replaces a file as a whole; sha256: its hash; folder_name, make_importable: of folders."""

import hashlib
import os
import sys
from pathlib import Path


def write_atomically(path: Path, data: bytes | memoryview | str) -> None:
    """Writes all of the data to a path, or leaves the old file; several processes may write to the same path."""
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        with open(partial, "wb") as file:
            file.write(data.encode() if isinstance(data, str) else data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def sha256(path: Path) -> str:
    """Returns the hash of a file's bytes, as provenance.json keeps it."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def folder_name(env_id: str) -> str:
    """Returns the name of a folder or a file of an environment.

    Example:
        >>> folder_name("my_package:mine/MyEnv-v0")
        'my_package-mine-MyEnv-v0'
    """
    return env_id.replace("/", "-").replace(":", "-")


def make_importable(folder: Path) -> None:
    """Lets this process import a folder's modules, after all others."""
    if (path := str(folder.resolve())) not in sys.path:
        sys.path.append(path)
