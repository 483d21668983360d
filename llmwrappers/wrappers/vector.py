"""transition_info: reads per-step infos of a vector environment under either autoreset mode."""

from typing import Any

import numpy as np
from numpy.typing import NDArray


def transition_info(infos: dict[str, Any], key: str) -> NDArray:
    """Returns an info of the last transition, for every environment of a vector.

    Under SAME_STEP autoreset the info of an episode's last step moves to ``infos["final_info"]``, and the top level holds the
    info of the next reset; this function returns the last step's. Under NEXT_STEP, and if no episode ended, it returns
    ``infos[key]``. A dict, such as RecordEpisodeStatistics' "episode", is refused: read it where it is.

    NEXT_STEP's dummy reset steps are no transitions: skip their rows. They hold a reset's info (``executed_action``: NaN), or
    0 if a reset has no such key.

    Args:
        infos: what ``VectorEnv.step`` returned
        key: a key of the info contract, such as ``"executed_action"``

    Returns:
        a new array (num_envs, ...)

    Raises:
        TypeError: the info is a dict
        KeyError: no environment reported ``key``, for example if all are in NEXT_STEP's dummy reset step

    Example:
        >>> infos = {"final_info": {"executed_action": np.array([[0.5]]), "_executed_action": np.array([True])}}
        >>> transition_info(infos, "executed_action").tolist()
        [[0.5]]

    Change log:
        * v0.1.0 - added
    """
    final = infos.get("final_info", {})
    if isinstance(final.get(key, infos.get(key)), dict):
        raise TypeError(f"{key!r} is a dict in infos, not an array; read infos['final_info'][{key!r}] or infos[{key!r}]")
    if key not in final:
        if key not in infos:
            raise KeyError(f"no environment reported {key!r}; reported: {sorted(k for k in infos if not k.startswith('_'))}")
        return infos[key].copy()
    result = infos[key].copy() if key in infos else np.zeros_like(final[key])
    finished = final[f"_{key}"]
    result[finished] = final[key][finished]
    return result
