"""alone.csv: the returns of policies that do not learn, such as an LLM's prior, beside the curves of a comparison.

``llmwrappers priors --csv`` writes it, one row an episode.
"""

from pathlib import Path

import numpy as np

from cleanrl_scripts.comparison.curves import PLAIN, csv_rows, number
from llmwrappers.errors import UserError


def returns_alone(folder: Path) -> dict[str, dict[str, np.ndarray]]:
    """environment -> policy -> the return of each episode; empty if the folder has no alone.csv.

    Raises:
        UserError: a column is missing, or a return is no finite number
    """
    path, returns = folder / "alone.csv", {}
    if not path.exists():
        return {}
    for where, row in csv_rows(path):
        if absent := [name for name in ("env_id", "policy", PLAIN) if name not in row]:
            raise UserError(f"{path} has no column {', '.join(absent)}; it has {', '.join(row)}")
        returns.setdefault(row["env_id"], {}).setdefault(row["policy"], []).append(number(row[PLAIN], PLAIN, where))
    return {env_id: {name: np.array(r) for name, r in policies.items()} for env_id, policies in returns.items()}
