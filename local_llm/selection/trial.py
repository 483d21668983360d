"""Tries a table of critical states: an agent trains with it, which shows what each entry is worth."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cleanrl_scripts.comparison.runs import Run
from cleanrl_scripts.comparison.training import train
from llmwrappers import Trajectories, __version__
from llmwrappers.errors import UserError
from llmwrappers.files import sha256
from llmwrappers.making import make
from local_llm.prompting.rollouts import fingerprint
from local_llm.prompting.wording import number_text

SCRIPT = Path(__file__).parents[2] / "cleanrl_scripts" / "ppo_ultra.py"


@dataclass
class Trial:
    """The result of a trial: what each entry was worth, as in entries.json, and episodes of the trained agent."""

    entries: list[dict[str, Any]]
    trajectories: Trajectories

    @property
    def helpful(self) -> list[int]:
        """The entries that surely helped: their interval lies above 0."""
        return [row["entry"] for row in self.entries if (row["low"] or 0) > 0]

    def worth(self, entry: int) -> str:
        """Says what an entry was worth.

        Example:
            >>> row = {"entry": 0, "played": 40, "withheld": 12, "advantage": 2.5, "low": 0.75, "high": 4.25, "disabled": False}
            >>> Trial([row], None).worth(0)
            'Played in 40 episodes, withheld in 12. Worth +2.5 [+0.75, +4.25]: it surely helped.'
        """
        row = self.entries[entry]
        text = f"Played in {row['played']} episodes, withheld in {row['withheld']}."
        if row["low"] is None:
            return f"{text} Met too rarely to tell its worth."
        verdict = (
            "it was disabled" if row["disabled"] else "it surely helped" if entry in self.helpful else "that may be chance"
        )
        return f"{text} Worth {row['advantage']:+.3g} [{row['low']:+.3g}, {row['high']:+.3g}]: {verdict}."


def try_by_training(
    table: Path, *, agent: Path, env_id: str, episodes: int, seed: int, timesteps: int, env_kwargs: dict[str, Any] | None = None
) -> Trial:
    """Trains an agent with the table's actions, half of them withheld, and returns the result.

    A trial that has finished beside the table with the same environment and files is not repeated; an interrupted one is
    resumed.

    Args:
        table: a table's file; the trial goes into a folder beside it
        agent: its agent.pt
        env_id: the environment of both
        episodes: number of episodes of the trained agent to record
        seed: seed of the trial
        timesteps: training steps
        env_kwargs: arguments of gym.make

    Raises:
        UserError: the training failed, or its script is not there
    """
    if not SCRIPT.is_file():
        raise UserError(f"no {SCRIPT}: a second round needs a checkout of the repository")
    options = ["--env-id", env_id, "--arm", "a", "--guidance", "table", "--imitation-coef", "0"]
    options += ["--control-probability", "0.5", "--seed", str(seed), "--no-cuda"]
    options += ["--total-timesteps", str(timesteps), "--eval-every", str(timesteps), "--trajectory-episodes", str(episodes)]
    options += ["--env-kwargs", json.dumps(env_kwargs)] if env_kwargs else []
    with make(env_id, **(env_kwargs or {})) as env:
        facts = [__version__, options, fingerprint(env), sha256(agent), sha256(table)]
    key = hashlib.sha256(json.dumps(facts).encode()).hexdigest()
    folder = table.resolve().with_name(f"trial-{key[:8]}")
    files = ["--agent", str(agent.resolve()), "--critical-states", str(table.resolve())]
    run = Run(env_id, "a", seed, timesteps, folder, SCRIPT, (*options, *files))
    if not run.is_finished:
        print(f"trying the table for {number_text(timesteps)} steps; progress in {run.log}", flush=True)
        try:
            failures = train([run], folder.parent, jobs=1)
        except UserError as error:
            raise UserError(f"the trial of the table failed: {error}") from None
        if failures:
            raise UserError(f"the trial of the table failed: {failures[run]}")
    assert run.run_dir is not None
    return read_trial(run.run_dir / "entries.json", run.run_dir / "trajectories.npz")


def read_trial(entries: Path, trajectories: Path) -> Trial:
    """Returns the trial in two files."""
    return Trial(json.loads(entries.read_text("utf-8")), Trajectories.load(trajectories))
