"""moved_between: whether an environment behaves the same on two versions of MuJoCo."""

import re

from llmwrappers.priors.written_for import family

# From this version on the same actions lead elsewhere. Source: findings/mujoco-moves-hopper-and-ant.sh; HalfCheetah, Walker2d,
# Swimmer, Reacher and InvertedPendulum agree to ten digits from 3.1 to 4.0 over 40 steps.
MOVED = {(3, 5): ("Ant", "Hopper"), (4, 0): ("Ant",)}


def moved_between(env_id: str, before: str | None, now: str | None) -> str:
    """Returns the version of MuJoCo, between two, that changed an environment (returns are not comparable across it), or "".

    Example:
        >>> moved_between("Hopper-v4", "3.4.0", "4.0.0"), moved_between("Walker2d-v4", "3.4.0", "4.0.0")
        ('3.5', '')
    """
    low, high = sorted(tuple(map(int, re.findall(r"\d+", version or "0"))) for version in (before, now))
    name = "" if ":" in env_id else family(env_id)[1]  # another package's Ant is another Ant
    moved = [step for step, names in MOVED.items() if low < step <= high and name in names]
    return ".".join(map(str, moved[-1])) if moved and before and now else ""


def note_on_returns(env_ids: list[str], before: str | None, now: str | None) -> str:
    """Returns a sentence on the environments that changed between two versions of MuJoCo, or ""."""
    moved = {env_id: version for env_id in env_ids if (version := moved_between(env_id, before, now))}
    if not moved:
        return ""
    names = ", ".join(f"{env_id} (MuJoCo {version})" for env_id, version in moved.items())
    return f"note: the same actions lead elsewhere, so returns with mujoco {before} and {now} are not comparable: {names}"
