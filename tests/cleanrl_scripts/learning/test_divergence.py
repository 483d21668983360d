"""refuse_divergence: a learner that diverges ends its run in one sentence, and no checkpoint keeps it."""

import numpy as np
import pytest
import torch
from conftest import ROOT, load_script

from cleanrl_scripts.learning.divergence import refuse_divergence
from llmwrappers.errors import UserError

PPO = "--num-steps 128 --num-minibatches 4"
TD3 = "--learning-starts 40 --batch-size 16"
NEVER = "--agent none --arm none --trajectory-episodes 0"


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_one_number_is_enough(value):
    refuse_divergence([np.zeros((2, 3)), torch.zeros(4, requires_grad=True)])
    for wrong in (np.float32([0.0, value]), torch.tensor([0.0, value])):
        with pytest.raises(UserError, match="the learner diverged"):
            refuse_divergence([np.zeros(2), wrong])


@pytest.mark.parametrize(
    ("script", "arguments"),
    [
        ("ppo_camel.py", f"--env-id CartPole-v1 --prior none {PPO}"),
        ("ppo_camel.py", f"--env-id Pendulum-v1 --prior none {PPO}"),
        ("ppo_ultra.py", f"--env-id Pendulum-v1 {NEVER} {PPO}"),
        ("td3_camel.py", f"--env-id Pendulum-v1 --prior none {TD3}"),
        ("td3_camel.py", f"--env-id Pendulum-v1 --prior Pendulum-v1 --candidate 3 {TD3}"),
    ],
)
def test_the_run_ends_and_keeps_no_such_network(script, arguments, tmp_path):
    command = f"{arguments} --learning-rate 1e30 --total-timesteps 512 --checkpoint-every 1 --compile off --no-cuda"
    with pytest.raises(UserError, match="the learner diverged: its networks hold NaN or Inf"):
        load_script(ROOT / "cleanrl_scripts" / script).main([*command.split(), "--runs-dir", str(tmp_path)])
    torch.use_deterministic_algorithms(False)
    (run_dir,) = tmp_path.iterdir()
    assert not (run_dir / "summary.json").exists()
    assert not (run_dir / "checkpoint.pt").exists()
