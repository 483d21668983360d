"""ppo_camel.py: the audition's verdicts, the clone, what PPO makes of it, resuming, bad input."""

import csv
import inspect
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
import torch
from conftest import ROOT, Line, kill_and_resume, linear, metrics_of
from gymnasium.spaces import Box, Discrete

from cleanrl_scripts import ppo_camel
from cleanrl_scripts.learning import actor_critic, networks
from cleanrl_scripts.learning.actor_critic import ActorCritic
from llmwrappers.errors import UserError
from llmwrappers.priors.audition import Audition, Episode, Teacher, Verdict
from llmwrappers.priors.dagger import DAgger

SCRIPT = ROOT / "cleanrl_scripts" / "ppo_camel.py"
ONE_STEP, TURNS = "llmwrappers-tests/OneStep-v0", "llmwrappers-tests/Turns-v0"  # known from conftest
QUICK = ["--num-steps", "128", "--num-minibatches", "4", "--update-epochs", "4", "--eval-every", "512", "--eval-episodes", "2"]
QUICK += ["--clone-minibatches", "4", "--no-cuda", "--clone-steps", "400", "--warmup-steps", "0"]


@pytest.fixture
def train(tmp_path):
    """Runs the script in this process and returns its run folder."""

    def run(*arguments: str) -> Path:
        runs = tmp_path / f"runs-{time.monotonic_ns()}"
        ppo_camel.main([*QUICK, "--runs-dir", str(runs), *arguments])
        (run_dir,) = runs.iterdir()
        return run_dir

    return run


def values_of(run_dir: Path, metric: str) -> list[tuple[int, float]]:
    with open(run_dir / "metrics.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    return [(int(row["global_step"]), float(row["value"])) for row in rows if row["metric"] == metric]


def summary_of(run_dir: Path) -> dict:
    return json.loads((run_dir / "summary.json").read_text())


def verdict_of(run_dir: Path) -> str:
    """What the fields of summary.json say in words."""
    return str(Verdict(**summary_of(run_dir)["audition"]))


def prior(folder: Path, name: str, answer: str) -> str:
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}.py"
    path.write_text(f"def policy(obs):\n    return {answer}\n")
    return str(path)


# ------------------------------------------------------------------------------------------------ what becomes of a prior


def test_an_optimal_prior_is_kept(train, tmp_path):
    run_dir = train("--env-id", ONE_STEP, "--prior", prior(tmp_path, "right", "[0.8]"), "--total-timesteps", "2448")
    assert verdict_of(run_dir).startswith("Teacher: right.")
    summary = summary_of(run_dir)
    found = summary["audition"]
    assert (summary["taught"], found["candidate"], found["reason"], found["faults"]) == (True, "right", "better", {})
    assert found["steps"] == max(step for name in found["returns"] for step, _ in values_of(run_dir, f"audition/{name}"))
    returns = dict(values_of(run_dir, "eval/episodic_return"))
    assert returns[0] < -0.3, "it is the untrained agent that is evaluated first"
    assert all(value > -0.01 for step, value in returns.items() if step >= 400), returns


def test_an_optimum_elsewhere_is_reached_all_the_same(train, tmp_path):
    """Outside the mask of radius 0.3 around the prior, too."""
    run_dir = train("--env-id", ONE_STEP, "--prior", prior(tmp_path, "near", "[0.1]"), "--total-timesteps", "12688")
    returns = dict(values_of(run_dir, "eval/episodic_return"))
    assert returns[400] == pytest.approx(-(0.7**2), abs=0.05), "the clone does what the prior does"
    assert summary_of(run_dir)["eval/episodic_return"] > -0.01


def test_a_harmful_prior_is_dropped_and_ppo_goes_on_alone(train, tmp_path):
    run_dir = train("--env-id", ONE_STEP, "--prior", prior(tmp_path, "wrong", "[-0.9]"), "--total-timesteps", "12688")
    verdict = verdict_of(run_dir)
    assert verdict.startswith("No teacher: wrong returned -2.9 ")
    assert verdict.endswith(": not significantly above random actions. The agent learns alone.")
    summary = summary_of(run_dir)
    found = summary["audition"]
    assert (summary["taught"], found["candidate"], found["reason"], found["episodes"]) == (False, "wrong", "chance", 10)
    assert found["returns"]["wrong"] == pytest.approx(-2.9, abs=0.1)
    assert found["returns"]["wrong"] < found["returns"]["random actions"]
    assert not values_of(run_dir, "losses/clone_loss")
    assert summary_of(run_dir)["eval/episodic_return"] > -0.1  # far from the -2.9 of the prior


def test_a_prior_that_raises_stops_the_run_before_it_begins(tmp_path):
    path = prior(tmp_path, "broken", "[obs[7]]")
    command = [sys.executable, str(SCRIPT), "--env-id", "Pendulum-v1", "--prior", path, "--runs-dir", str(tmp_path / "runs")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    fault = "line 2: IndexError: index 7 is out of bounds for axis 0 with size 3"
    refused = f"--env-id Pendulum-v1 --prior {path}: broken failed ({fault}). Mend it, or train without one: --prior none"
    assert (done.returncode, done.stderr) == (1, f"ppo_camel.py: error: {refused}\n")
    assert not (tmp_path / "runs").exists()


def test_where_all_candidates_raise_ppo_is_alone_and_the_verdict_says_why(train, tmp_path):
    folder = tmp_path / "policies"
    prior(folder, "broken", "[obs[7]]")
    prior(folder, "wide", "obs")
    run_dir = train("--env-id", ONE_STEP, "--prior", f"auto:{folder}", "--total-timesteps", "1000")
    broken = "broken: line 2: IndexError: index 7 is out of bounds for axis 0 with size 2"
    wide = "wide: ValueError: the prior returned shape (2,), the action space has (1,)"
    assert verdict_of(run_dir) == f"No teacher: all priors failed ({broken}; {wide}). The agent learns alone."
    assert not values_of(run_dir, "losses/clone_loss")
    assert values_of(run_dir, "losses/policy_loss")


def test_the_best_of_a_folder_teaches(train, tmp_path):
    folder = tmp_path / "policies"
    for name, answer in (("broken", "[obs[7]]"), ("near", "[0.6]"), ("far", "[0.1]"), ("harmful", "[-1.0]")):
        prior(folder, name, answer)
    run_dir = train("--env-id", ONE_STEP, "--prior", f"auto:{folder}", "--total-timesteps", "1000")
    assert verdict_of(run_dir).startswith("Teacher: near. It returned -0.0 (3 episodes)")
    for name in ("broken", "near", "far", "harmful", "random actions"):
        assert values_of(run_dir, f"audition/{name}")


def test_a_prior_of_a_discrete_space_teaches(train, tmp_path):
    """Turns pays the action's number: actions 2 and 3 are allowed, and either is as good to the clone."""
    run_dir = train("--env-id", TURNS, "--prior", prior(tmp_path, "high", "[0.0, 0.0, 1.0, 1.0]"), "--total-timesteps", "1000")
    assert verdict_of(run_dir).startswith("Teacher: high.")
    returns = dict(values_of(run_dir, "eval/episodic_return"))
    assert returns[400] >= 10.0, "five steps of at least 2"


def test_a_prior_sees_dict_observations_and_the_agent_a_vector(train, tmp_path):
    path = prior(tmp_path, "reader", '[obs["goal"][1] - 0.25 + 0.2 * obs["position"][0]]')  # 0.8, the optimum
    run_dir = train("--env-id", "llmwrappers-tests/DictOneStep-v0", "--prior", f"trusted:{path}", "--total-timesteps", "1000")
    assert dict(values_of(run_dir, "eval/episodic_return"))[400] > -0.005


def test_no_prior_is_ppo_from_the_first_step(train):
    run_dir = train("--env-id", ONE_STEP, "--prior", "none", "--total-timesteps", "512")
    assert [step for step, _ in values_of(run_dir, "losses/policy_loss")] == [128, 256, 384, 512]
    agent = torch.load(run_dir / "agent.pt")["agent"]
    assert not agent["is_frozen"]
    assert not agent["is_copy"]
    assert (summary_of(run_dir)["taught"], summary_of(run_dir)["audition"]) == (False, None)
    assert agent["observations"]["count"] > 512  # episodes begin with an observation more


def test_the_final_agent_is_an_expert_for_the_next(train):
    first = train("--env-id", ONE_STEP, "--prior", "none", "--total-timesteps", "12800")
    run_dir = train("--env-id", ONE_STEP, "--prior", f"expert:{first}", "--total-timesteps", "1000")
    assert verdict_of(run_dir).startswith("Teacher: expert.")


# ------------------------------------------------------------------------------------------------ the clone


def clone_of(policy) -> DAgger:
    env, rng = Line(), np.random.default_rng(0)
    agent = ActorCritic(env.observation_space, env.action_space, rng, torch.device("cpu"))
    teacher = Teacher(env, policy, np.asarray, None, radius=0.3)
    loss = ppo_camel.BehaviourCloning(agent, env.action_space, 0.2)
    found = Audition({"teacher": [teacher.play(seed, most_steps=1000) for seed in range(100)]}, "teacher", "better")
    clone = DAgger(teacher, agent, loss.learn, gamma=0.5, clone_steps=20_000, learning_rate=1e-3, found=found, rng=rng)
    clone.finish()
    return clone


def test_an_action_of_one_value_only_is_cloned_too():
    class Fixed(Line):
        action_space = Box(np.float32([-2.0, 1.0]), np.float32([4.0, 1.0]))

    env = Fixed()
    agent = ActorCritic(env.observation_space, env.action_space, np.random.default_rng(0), torch.device("cpu"))
    loss, advice = ppo_camel.BehaviourCloning(agent, env.action_space, 0.2), np.float32([[0.5, 1.0]])
    assert np.isfinite(loss.learn(np.zeros((1, 3), np.float32), advice, np.float32([0.0]), learning_rate=1e-3))
    assert agent.log_std.isfinite().all()


def test_without_a_prior_no_minibatches_of_a_clone_are_asked_for():
    arguments = ["--env-id", "CartPole-v1", "--prior", "none", "--num-steps", "100", "--num-minibatches", "4"]
    assert ppo_camel.parse_args(arguments).num_steps == 100


def test_a_clone_does_what_its_teacher_does():
    """To within 2 % of half the action range, in states like those that it was shown; its values are the returns."""
    clone = clone_of(linear)
    agent, fresh = clone.agent, [Line().reset(seed=seed)[0] for seed in range(1000, 1200)]
    errors = np.array([agent.act(observation) - linear(observation) for observation in fresh]) / 3.0
    assert np.sqrt(np.mean(errors**2)) < 0.02
    values = np.array([agent.value(observation) for observation in fresh]) / agent.returns.inverse_std
    # 1 + 1/2 + 1/4 ... to the end of the ten steps, which an observation does not tell: 1.8 on the average.
    assert values.mean() == pytest.approx(1.8, abs=0.1)
    assert values.std() < 0.1
    assert agent.log_std.exp().tolist() == pytest.approx([3.0 * 0.2] * 2)


def test_states_where_the_teacher_fails_are_left_out():
    def moody(observation):
        if observation[2] > 0:
            raise ValueError
        return linear(observation)

    clone = clone_of(moody)
    assert np.isnan(np.array(clone.advice)).any(axis=1).mean() == pytest.approx(0.5, abs=0.2)
    fresh = [o for o in (Line().reset(seed=seed)[0] for seed in range(1000, 1200)) if o[2] < -5]
    errors = np.array([clone.agent.act(observation) - linear(observation) for observation in fresh]) / 3.0
    assert np.sqrt(np.mean(errors**2)) < 0.04


def test_the_critic_learns_nothing_from_strangers():
    clone = clone_of(linear)
    stranger = Episode()
    stranger.add(np.zeros(3), np.zeros(2), np.zeros(3), 1e6)
    stranger.end(np.zeros(3), terminated=True, truncated=False)
    clone.look_at(stranger, is_own=False)
    assert np.isnan(clone.returns()[-1])
    assert np.isfinite(clone.returns()[:-1]).all()


def test_the_normaliser_changes_no_output_after_the_clone():
    """However far what the agent sees moves away."""
    agent = clone_of(linear).agent
    observation = np.array([10.0, -20.0, 30.0])
    before = agent.act(observation), agent.value(observation)
    for far in range(1000):
        agent.normalized(np.full(3, 10.0 * far), update=True)
    assert np.array_equal(agent.act(observation), before[0])
    assert agent.value(observation) == before[1]


def test_the_normaliser_is_told_which_entries_never_changed(monkeypatch):
    clone, told = clone_of(linear), []
    for episode, _ in clone.episodes:
        for observation in episode.observations:
            observation[1] = 7.0
    monkeypatch.setattr(clone.agent, "freeze", lambda is_constant: told.append(is_constant.tolist()))
    monkeypatch.setattr(clone, "fit", lambda epochs: None)
    clone.finish()
    assert told == [[False, True, False]]


def test_the_agent_plays_in_the_mask_ever_less_often():
    """At first its actions are confined to the interval around the teacher's, in the end they are its own."""
    clone = clone_of(linear)
    teacher, received = clone.teacher, []
    step = teacher.env.step
    teacher.env.step = lambda action: (received.append(np.array(action)), step(action))[1]
    clone.agent.log_std.data.fill_(3.0)  # it acts wildly
    for epsilon, inside in ((1.0, True), (0.0, False)):
        received.clear()
        teacher.mask.set_wrapper_attr("mask_epsilon", epsilon)
        episode = clone.play(teacher.mask, most_steps=100)
        assert len(episode.rewards) == len(received) == 10
        advice = np.array([linear(handed) for handed in episode.handed])
        assert (np.abs(np.array(received) - advice) <= 0.3 * 3.0 + 1e-4).all() == inside


# ------------------------------------------------------------------------------------------------ runs


def test_audition_and_clone_are_counted_in_the_steps(train, tmp_path):
    run_dir = train("--env-id", ONE_STEP, "--prior", prior(tmp_path, "right", "[0.8]"), "--total-timesteps", "1000")
    assert [step for step, _ in values_of(run_dir, "losses/policy_loss")] == [528, 656, 784, 912]
    epsilons = values_of(run_dir, "mask/epsilon")
    assert epsilons[0][1] > 0.9
    assert epsilons[-1] == (400, 0.0)
    assert summary_of(run_dir)["global_step"] == 912


@pytest.mark.parametrize(("envs", "compiled"), [("1", "off"), ("2", "off"), ("1", "on")])
def test_resuming_after_a_kill_repeats_the_run(train, tmp_path, monkeypatch, envs, compiled):
    """A run that is stopped right after a checkpoint goes on as if it had not been, to the last bit."""
    arguments = ["--env-id", "llmwrappers-tests/Reach-v0", "--prior", prior(tmp_path, "home", "[-obs[0], -obs[1]]")]
    arguments += ["--num-envs", envs, "--compile", compiled, "--total-timesteps", "2000", "--checkpoint-every", "500"]
    whole = train(*arguments)
    save = ppo_camel.save_checkpoint

    def save_and_stop(run_dir, state):
        save(run_dir, state)
        raise KeyboardInterrupt

    monkeypatch.setattr(signal, "signal", lambda *_: None)  # a stopped run ignores Ctrl-C, and so would all later tests
    monkeypatch.setattr(ppo_camel, "save_checkpoint", save_and_stop)
    with pytest.raises(KeyboardInterrupt):
        train(*arguments)
    (killed,) = (path.parent for path in tmp_path.glob("runs-*/*/args.json") if path.parent != whole)
    monkeypatch.setattr(ppo_camel, "save_checkpoint", save)
    with open(killed / "metrics.csv", "a") as file:
        file.write("999,what was written after the checkpoint,1\n")
    ppo_camel.main(["--resume", str(killed)])

    def metrics(run_dir):
        return [line for line in (run_dir / "metrics.csv").read_text().splitlines() if "charts/SPS" not in line]

    assert metrics(killed) == metrics(whole)
    for name, value in torch.load(whole / "agent.pt")["agent"]["network"].items():
        assert torch.equal(value, torch.load(killed / "agent.pt")["agent"]["network"][name])


def test_a_finished_run_goes_on_for_more_steps(train, tmp_path, capsys):
    """The learning rate falls to 0 at the new end."""
    run_dir = train("--env-id", ONE_STEP, "--prior", prior(tmp_path, "right", "[0.8]"), "--total-timesteps", "1000")
    before, verdict = (run_dir / "metrics.csv").read_text(), verdict_of(run_dir)
    ppo_camel.main(["--resume", str(run_dir)])  # there is nothing left to do
    assert (run_dir / "metrics.csv").read_text() == before

    capsys.readouterr()
    ppo_camel.main(["--resume", str(run_dir), "--total-timesteps", "2000"])
    note = (
        "note: the run goes on to 2000 steps instead of 1000; the learning rate falls to 0 at step 2000 instead of 1000, and "
    )
    assert f"{note}rises first\n" in capsys.readouterr().out
    end = 400 + 12 * 128
    assert (run_dir / "metrics.csv").read_text().startswith(before)
    assert summary_of(run_dir)["global_step"] == end
    assert verdict_of(run_dir) == verdict
    rates = [(step, rate) for step, rate in values_of(run_dir, "charts/learning_rate") if step > 1000]
    assert rates == [(step, pytest.approx(3e-4 * (1 - (step - 128) / end))) for step in range(1040, end + 1, 128)]
    with pytest.raises(UserError, match=r"--total-timesteps 900: the run in .* has 2000; --resume takes more steps, not fewer"):
        ppo_camel.main(["--resume", str(run_dir), "--total-timesteps", "900"])


def test_without_a_schedule_more_steps_are_what_they_would_have_been(train):
    arguments = ["--env-id", "llmwrappers-tests/Reach-v0", "--prior", "none", "--no-anneal-lr", "--checkpoint-every", "512"]
    whole = train(*arguments, "--total-timesteps", "1024")
    longer = train(*arguments, "--total-timesteps", "512")
    ppo_camel.main(["--resume", str(longer), "--total-timesteps", "1024"])
    assert metrics_of(longer) == metrics_of(whole)
    assert (longer / "agent.pt").read_bytes() == (whole / "agent.pt").read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("prior", ["none", "auto"])
def test_kills_at_random_moments_leave_no_trace(tmp_path, prior):
    arguments = ["--env-id", "Pendulum-v1", "--prior", prior, "--clone-steps", "3000", "--num-steps", "256", "--no-cuda"]
    arguments += ["--total-timesteps", "12000", "--checkpoint-every", "1000", "--eval-every", "2000", "--eval-episodes", "2"]
    kill_and_resume(SCRIPT, arguments, tmp_path)


def test_the_script_runs_from_the_command_line_and_is_tracked_offline(tmp_path):
    command = [sys.executable, str(SCRIPT), *QUICK, "--env-id", "Pendulum-v1", "--runs-dir", str(tmp_path)]
    done = subprocess.run(
        [*command, "--clone-steps", "2450", "--total-timesteps", "2706", "--track", "--capture-video"],
        capture_output=True, text=True, check=True, env={**__import__("os").environ, "WANDB_MODE": "offline"},
    )  # fmt: skip
    assert "Teacher: policy-" in done.stdout
    (run_dir,) = tmp_path.iterdir()
    assert json.loads((run_dir / "args.json").read_text())["args"]["prior"] == "auto"
    # The episode that the end of behaviour cloning cut is not logged as a whole one.
    assert {length for _, length in values_of(run_dir, "charts/episodic_length")} == {200.0}

    (tracked,) = run_dir.glob("wandb/offline-run-*")
    films = {film.read_bytes() for film in tracked.glob("files/media/videos/**/*.mp4")}
    recorded = {film.read_bytes() for film in run_dir.glob("videos/step-*.mp4")}
    assert films == recorded
    assert len(recorded) == len(dict(values_of(run_dir, "eval/episodic_return")))
    (records,) = tracked.glob("*.wandb")  # protocol buffers: text stands in them as it is
    assert verdict_of(run_dir).encode() in records.read_bytes()


def test_tensorboard_shows_the_hyperparameters(train):
    accumulators = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    run_dir = train("--env-id", ONE_STEP, "--prior", "none", "--total-timesteps", "128", "--seed", "7")
    events = accumulators.EventAccumulator(str(run_dir)).Reload()
    (text,) = events.Tensors("hyperparameters/text_summary")
    (table,) = (value.decode() for value in text.tensor_proto.string_val)
    assert table.startswith("|param|value|\n|-|-|\n")
    assert {"|seed|7|", f"|env_id|{ONE_STEP}|", "|learning_rate|0.0003|"} <= set(table.splitlines())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--env-id", "Nonesuch-v4"], "no environment is called Nonesuch-v4"),
        (["--env-id", "CartPole-v1"], "no prior is shipped for CartPole-v1"),
        (["--env-id", "Swimmer-v4", "--prior", "shipped"], "no prior is shipped for Swimmer-v4"),
        (["--env-id", "llmwrappers-tests/Unbounded-v0", "--prior", "good.py"], "finite bounds"),
        (["--env-id", "llmwrappers-tests/Pictures-v0", "--prior", "none"], "images must be uint8 of shape (channels, 80, 80)"),
        (["--prior", "missing.py"], "missing.py"),
        (["--prior", "auto:nowhere"], "no prior named 'nowhere'"),
        (["--prior", "auto", "--candidate", "2"], "--candidate 2 needs a shipped prior or a folder, got --prior auto"),
        (["--prior-input", "ram"], "prior_input='ram' needs an Atari environment"),
        (["--clone-std", "0"], "--clone-std must be finite and above 0, got 0.0"),
        (["--clone-steps", "0"], "--clone-steps must be at least 1, got 0"),
        (["--num-minibatches", "3"], "--num-minibatches 3 must divide num_envs * num_steps = 1 * 2048"),
        (["--clone-minibatches", "3"], "--clone-minibatches 3 must divide num_envs * num_steps = 1 * 2048"),
        (["--total-timesteps", "12000"], "must be at least one rollout, num_envs * num_steps + clone_steps = 2048 + 20000"),
        (["--gamma", "nan"], "--gamma must be in [0, 1], got nan"),
        (["--clone-gamma", "1.1"], "--clone-gamma must be in [0, 1], got 1.1"),
        (["--resume", "nowhere"], "--resume nowhere: no run of this script"),
        (["--runs-dir", "good.py/runs"], "cannot make the run folder"),
    ],
)
def test_user_mistakes_name_the_argument(tmp_path, monkeypatch, arguments, message):
    prior(tmp_path, "good", "[0.1]")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError) as error:
        ppo_camel.main(arguments)
    assert message in str(error.value)


def test_a_prior_that_has_changed_is_not_gone_on_with(train, tmp_path):
    path = prior(tmp_path, "right", "[0.8]")
    run_dir = train("--env-id", ONE_STEP, "--prior", path, "--total-timesteps", "1000")
    prior(tmp_path, "right", "[0.7]")
    with pytest.raises(UserError, match="the file of --prior is not the one that the run began with"):
        ppo_camel.main(["--resume", str(run_dir)])
    with pytest.raises(UserError, match="--seed 7: the run in .* has 1; --resume takes no other arguments"):
        ppo_camel.main(["--resume", str(run_dir), "--seed", "7"])


def test_discrete_actions_and_pictures_have_an_agent():
    env = gym.make("CartPole-v1")
    assert isinstance(env.action_space, Discrete)
    agent = ActorCritic(env.observation_space, env.action_space, np.random.default_rng(0), torch.device("cpu"))
    assert agent.act(env.reset(seed=0)[0]) in (0, 1)
    assert all(parameter.requires_grad for parameter in agent.parameters)


def test_a_researcher_adds_layer_norm(tmp_path, monkeypatch):
    """One line of mlp, as networks.py says, and the agent trains."""
    source = inspect.getsource(networks.mlp).replace(
        "nn.Linear(i, o), activation()", "nn.Linear(i, o), nn.LayerNorm(o), activation()"
    )
    assert "LayerNorm" in source
    exec(source, edited := dict(vars(networks)))
    monkeypatch.setattr(actor_critic, "mlp", edited["mlp"])
    options = ["--total-timesteps", "5120", "--num-steps", "512", "--num-minibatches", "8", "--eval-every", "5120"]
    options += ["--eval-episodes", "2", "--network-hidden", "32", "32", "--runs-dir", str(tmp_path)]
    ppo_camel.main(["--env-id", "CartPole-v1", "--prior", "none", *options])
    (run_dir,) = tmp_path.iterdir()
    saved = torch.load(run_dir / "agent.pt")["agent"]
    assert saved["sizes"] == [4, 32, 32, 2]
    # 1 and 4 are layer norms. The last layer has none: of a single number, such as a value, it would make a constant.
    layers = {f"{network}.{i}" for network in ("actor", "critic") for i in (0, 1, 3, 4, 6)}
    assert {name.rsplit(".", 1)[0] for name in saved["network"]} == layers
    summary = json.loads((run_dir / "summary.json").read_text())
    assert summary["eval/episodic_return"] > 40  # random actions: 22
