"""write_atomically: a file is the old one or the new one; sha256: its hash; folder_name: what an environment's is called."""

import hashlib
import os
from pathlib import Path


def write_atomically(path: Path, data: bytes | memoryview | str) -> None:
    """Leaves at path either what was there or all of the data; several processes may write the same path."""
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
    """Returns what a folder or a file of an environment is called.

    Example:
        >>> folder_name("my_package:mine/MyEnv-v0")
        'my_package-mine-MyEnv-v0'
    """
    return env_id.replace("/", "-").replace(":", "-")
