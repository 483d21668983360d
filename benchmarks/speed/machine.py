"""What a benchmark says of where and with what it ran."""

import contextlib
import datetime
import importlib.metadata
import os
import platform
from pathlib import Path


def processor() -> str:
    """The model of the CPU."""
    model = platform.processor()
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), model)
    return model


def describe_machine(*packages: str) -> str:
    """Date, CPU model, and the versions of Python and of some packages."""
    versions = ", ".join(f"{package} {importlib.metadata.version(package)}" for package in packages)
    return f"{datetime.date.today()}, {processor()}, {os.cpu_count()} cores\npython {platform.python_version()}, {versions}"
