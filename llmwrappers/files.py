"""write_atomically: a file is the old one or the new one, whatever happens meanwhile."""

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
