"""record_dataset: a prior's episodes as a Minari dataset, for offline reinforcement learning and imitation."""

import copy
import importlib.util
import warnings
from typing import Any

import gymnasium as gym

from llmwrappers.priors.contract import PriorPolicy
from llmwrappers.priors.measurement import play


def record_dataset(env: gym.Env, policy: PriorPolicy, name: str, episodes: int, seed: int, algorithm_name: str) -> Any:
    """Plays a prior alone and records its episodes, seeded ``seed``, ``seed + 1``, ..., as a Minari dataset on this machine.

    Observations are raw, actions native. ``dataset.recover_environment()`` makes the environment without a mask, to evaluate
    an offline agent. Minari keeps datasets in ``MINARI_DATASETS_PATH``, by default ``~/.minari/datasets``.

    Args:
        env: an environment from ``gym.make``, so that it can be made again; it is closed at the end
        name: "pendulum/prior-v0": an optional namespace, a name, and a version
        algorithm_name: the policy of the episodes, in words

    Returns:
        the ``minari.MinariDataset``

    Raises:
        ValueError: Minari is not installed, a malformed name, one that is taken, an environment that cannot be made again, a
            call of the policy that failed: an offline agent would learn what was played instead

    Example:
        >>> env = gym.make("Pendulum-v1")
        >>> record_dataset(env, lambda obs: [0.0], "pendulum/prior", 1, 0, "nothing")
        Traceback (most recent call last):
        ...
        ValueError: a Minari dataset is called NAMESPACE/NAME-vNUMBER, as in pendulum/prior-v0, got 'pendulum/prior'
    """
    if any(importlib.util.find_spec(module) is None for module in ("minari", "h5py", "PIL", "jax")):
        raise ValueError('a Minari dataset needs Minari: pip install "llmwrappers[minari]"')
    import minari
    from minari.dataset.minari_dataset import parse_dataset_id

    try:  # Minari does so after everything was played
        parse_dataset_id(name)
    except (ValueError, TypeError):  # a TypeError without a version
        raise ValueError(f"a Minari dataset is called NAMESPACE/NAME-vNUMBER, as in pendulum/prior-v0, got {name!r}") from None
    if name in minari.list_local_datasets():
        raise ValueError(f"there is a dataset {name!r} already; name another version, or minari.delete_dataset({name!r})")
    if env.spec is None:
        raise ValueError(f"a Minari dataset needs an environment made with gym.make, got {env}")

    class Copied(minari.StepDataCallback):
        """An environment may write into the observation that it returned; Minari keeps that very object."""

        def __call__(self, *step: Any, **named: Any) -> Any:
            return copy.deepcopy(super().__call__(*step, **named))

    collector = minari.DataCollector(env, step_data_callback=Copied)
    faults = [step.fault for episode in range(episodes) for step in play(collector, policy, seed + episode)]
    if failed := [fault for fault in faults if fault]:
        collector.close()
        raise ValueError(f"{len(failed)} of {len(faults)} calls of the policy failed, the first with: {failed[0]}")
    with warnings.catch_warnings(action="ignore", category=UserWarning):  # of an author and a link that could be named
        dataset = collector.create_dataset(dataset_id=name, algorithm_name=algorithm_name)
    collector.close()
    return dataset
