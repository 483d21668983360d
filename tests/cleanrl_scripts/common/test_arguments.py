"""cleanrl_scripts/common/arguments.py: slips that people make, and the sentence for each; numbers as people write them."""

import json
import re
import subprocess
import sys

import pytest
from conftest import ROOT, load_script

from cleanrl_scripts.common.arguments import parse
from llmwrappers.errors import UserError

PPO, TD3, ULTRA, WATCH = "ppo_camel.py", "td3_camel.py", "ppo_ultra.py", "watch.py"
PENDULUM = ["--env-id", "Pendulum-v1"]
# Script, what was typed, the sentence. None of them begins a run, and none ends in a traceback.
SLIPS = [
    (PPO, ["--env-id", "Hoper-v4"], "no environment is called Hoper-v4; did you mean Hopper-v4, Hopper-v5, Hopper-v3?"),
    (PPO, ["--env-id", "Hopper-v9"], "no environment is called Hopper-v9; did you mean Hopper-v5, Hopper-v4, Hopper-v3?"),
    (TD3, ["--env-id", "pendulum-v1"], "no environment is called pendulum-v1; did you mean Pendulum-v1"),
    (PPO, ["--env-id", "MyEnv-v0"], "if a package registers it, name the package, too: module:MyEnv-v0"),
    (PPO, ["--env-id", "my_package:MyEnv-v0"], "cannot import my_package, which should register MyEnv-v0: No module named"),
    (ULTRA, ["--env-id", "minigrid:MiniGrid-Emty-5x5-v0"], "did you mean MiniGrid-Empty-5x5-v0"),
    (PPO, ["--env-id", "CartPole-v1"], "no prior is shipped for CartPole-v1: have a model write one (llmwrappers write-policy"),
    (TD3, ["--env-id", "Swimmer-v4"], "give a file that defines policy(obs), my_policy.py; --prior none trains without one"),
    (TD3, ["--env-id", "CartPole-v1", "--prior", "none"], "TD3 needs a Box action space of floats with finite low < high"),
    (TD3, ["--env-id", "CartPole-v1", "--prior", "none"], "; ppo_camel.py takes it"),
    (PPO, [*PENDULUM, "--prior", "Pendulun-v1"], "none is shipped by that name; did you mean Pendulum-v1?"),
    (PPO, [*PENDULUM, "--prior", "my_policy.py"], "no file at 'my_policy.py'; prior must be a Python file that"),
    (PPO, [*PENDULUM, "--prior", str(ROOT / "docs" / "guides")], "write-policy leaves policy-1.py, ... and provenance.json"),
    (PPO, [*PENDULUM, "--prior", "Hopper-v4"], "the prior 'Hopper-v4' was written for Hopper-v4, Hopper-v5, not for"),
    (PPO, [*PENDULUM, "--prior", "shipped", "--candidate", "9"], "candidate must be one of [1, 2, 3, 4, 5]"),
    (PPO, [*PENDULUM, "--prior", "none", "--candidate", "2"], "--candidate 2 needs a shipped prior or a folder, got --prior"),
    (TD3, [*PENDULUM, "--prior", "auto"], "only ppo_camel.py chooses among candidates; give --prior shipped"),
    (PPO, [*PENDULUM, "--prior", "expert:nothing"], "--prior expert:nothing: no agent at nothing: a finished run leaves"),
    (PPO, [*PENDULUM, "--total-timesteps", "1e3"], "--total-timesteps 1000 must be at least one rollout"),
    (PPO, [*PENDULUM, "--total-timesteps", "-5"], "--total-timesteps must be at least 1, got -5"),
    (TD3, [*PENDULUM, "--max-episode-steps", "0"], "--max-episode-steps must be at least 1, got 0"),
    (PPO, [*PENDULUM, "--num-minibatches", "7"], "--num-minibatches 7 must divide num_envs * num_steps = 1 * 2048"),
    (PPO, [*PENDULUM, "--gamma", "1.5"], "--gamma must be in [0, 1], got 1.5"),
    (TD3, [*PENDULUM, "--radius", "0"], "--radius must be in (0, 2], got 0.0"),
    *((script, [*PENDULUM, "--network-hidden", "8", "0"], "-hidden must be at least 1, got 0") for script in (PPO, TD3, ULTRA)),
    (PPO, [*PENDULUM, "--env-kwargs", "g=1.62"], "--env-kwargs must be a JSON object, such as "),
    (PPO, [*PENDULUM, "--env-kwargs", '{"gravity": 1.62}'], "unexpected keyword argument 'gravity'"),
    (PPO, [*PENDULUM, "--prior-input", "ram"], "prior_input"),
    (PPO, ["--resume", "runs/nowhere"], "--resume runs/nowhere: no run of this script: "),
    (PPO, [*PENDULUM, "--runs-dir", str(ROOT / "README.md"), "--prior", "none"], "cannot make the run folder"),
    (WATCH, [], "give either --run, a run folder, or --env-id, an environment"),
    (WATCH, [*PENDULUM, "--output", "film.avi"], "--output must end in .mp4 or .gif, got film.avi"),
    (WATCH, ["--run", "runs/nowhere"], "no agent at runs/nowhere: a finished run leaves agent.npz in its folder"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("script", "typed", "sentence"), SLIPS, ids=[f"{script} {' '.join(t)[-40:]}" for script, t, _ in SLIPS]
)
def test_a_slip_gets_one_sentence_with_the_way_out(script, typed, sentence):
    with pytest.raises(UserError) as error:
        load_script(ROOT / "cleanrl_scripts" / script).main(typed)
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)
    assert len(re.findall(r"-v\d", str(error.value))) < 8  # no list of everything that is shipped


@pytest.mark.parametrize(
    ("env_id", "sentence"),
    [
        ("ALE/Pong-v5", 'ale_py registers such ids: ale_py:ALE/Pong-v5 (pip install "llmwrappers[environments]")'),
        (
            "MiniGrid-Empty-5x5-v0",
            "minigrid registers such ids: minigrid:MiniGrid-Empty-5x5-v0 (pip install",
        ),
    ],
)
def test_an_id_of_a_package_is_named_with_it(env_id, sentence, monkeypatch):
    import gymnasium as gym

    monkeypatch.delitem(gym.registry, env_id, raising=False)  # another test may have registered it
    with pytest.raises(UserError) as error:
        load_script(ROOT / "cleanrl_scripts" / PPO).main(["--env-id", env_id])
    assert sentence in str(error.value)


def test_a_run_of_another_script_is_refused(tmp_path):
    td3 = load_script(ROOT / "cleanrl_scripts" / TD3)
    (tmp_path / "args.json").write_text(json.dumps({"args": vars(td3.Args())}))
    with pytest.raises(UserError, match=r"no run of this script: .*args.json"):
        load_script(ROOT / "cleanrl_scripts" / PPO).main(["--resume", str(tmp_path)])


@pytest.mark.parametrize("typed", [["--total-timesteps", "1e6"], ["--total-timesteps=1e6"], ["--total_timesteps", "1.0e6"]])
def test_whole_numbers_may_be_written_with_an_exponent(typed, monkeypatch):
    args = load_script(ROOT / "cleanrl_scripts" / TD3).Args
    assert parse(args, [*typed, "--learning-rate", "1e-3"]).total_timesteps == 1_000_000
    monkeypatch.setattr(sys, "argv", ["td3_camel.py", *typed])
    assert parse(args, None).total_timesteps == 1_000_000
    assert parse(args, ["--max-episode-steps", "1e3"]).max_episode_steps == 1000


@pytest.mark.parametrize("typed", ["1.5e0", "1e-3", "many"])
def test_others_are_refused(typed):
    with pytest.raises(SystemExit) as ended:
        parse(load_script(ROOT / "cleanrl_scripts" / TD3).Args, ["--total-timesteps", typed])
    assert ended.value.code == 2


@pytest.mark.parametrize("script", [PPO, TD3, ULTRA])
def test_help_begins_with_what_people_set_most_and_ends_with_how_a_run_is_kept(script, capsys):
    module = load_script(ROOT / "cleanrl_scripts" / script)
    with pytest.raises(SystemExit):
        module.parse_args(["--help"])
    shown = capsys.readouterr().out
    options = re.findall(r"^. (--[a-z-]+)", shown, re.MULTILINE)
    assert options[:5] == ["--env-id", "--env-kwargs", "--total-timesteps", "--seed", "--track"]
    if script != ULTRA:
        assert options[5] == "--prior"
    kept = options[options.index("--resume") :]
    assert {"--runs-dir", "--eval-every", "--checkpoint-every", "--wandb-entity", "--cuda"} <= set(kept)
    assert not {"--learning-rate", "--gamma", "--network-hidden"} & set(kept)

    command = f"llmwrappers train {script.removesuffix('.py').replace('_', '-')}"
    (example,) = re.findall(rf"Example: {command} (.*)", shown)
    assert module.parse_args(example.split()).seed == 2


def test_a_run_goes_on_in_an_environment_that_a_module_in_the_working_directory_registers(tmp_path):
    registers = "gym.register('Swing-v0', 'gymnasium.envs.classic_control:PendulumEnv', max_episode_steps=50)"
    (tmp_path / "swings.py").write_text(f"import gymnasium as gym\n{registers}\n")
    options = [
        "--prior",
        "none",
        "--num-steps",
        "128",
        "--num-minibatches",
        "4",
        "--compile",
        "off",
        "--no-cuda",
        "--eval-episodes",
        "1",
    ]

    def run(*arguments):
        command = [sys.executable, str(ROOT / "cleanrl_scripts" / "ppo_camel.py"), *arguments]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)

    assert run("--env-id", "swings:Swing-v0", "--total-timesteps", "256", *options).returncode == 0
    (run_dir,) = (tmp_path / "runs").iterdir()
    resumed = run("--resume", str(run_dir), "--total-timesteps", "512")
    assert resumed.returncode == 0, resumed.stderr
    assert json.loads((run_dir / "summary.json").read_text())["global_step"] == 512
