"""cleanrl_scripts/learning/priors_of_arms.py: what --prior stands for, what an arm is called, what is refused and why."""

import hashlib
import json
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
import torch
from conftest import Echo, OneStep, Turns

from cleanrl_scripts.common.arguments import RunArgs
from cleanrl_scripts.learning.actor_critic import ActorCritic
from cleanrl_scripts.learning.networks import layers_of, mlp
from cleanrl_scripts.learning.priors_of_arms import PriorArgs, PriorSource, arm_name, check_prior, load_priors, prior_files
from llmwrappers.agent import AGENT_FILE
from llmwrappers.agent import save_agent as write_agent
from llmwrappers.errors import UserError

ONE_STEP = "llmwrappers-tests/OneStep-v0"


def arguments(prior="none", env_id=ONE_STEP, **others) -> PriorArgs:
    return PriorArgs(prior=prior, env_id=env_id, **others)


def write(path: Path, answer: str) -> str:
    path.write_text(f"def policy(obs):\n    return {answer}\n")
    return str(path)


def save_agent(run_dir: Path, env_id: str, trained_on: str | None = None) -> ActorCritic:
    """Saves an agent with random weights and statistics as a PPO script does."""
    env, rng = gym.make(env_id), np.random.default_rng(0)
    space = gym.spaces.flatten_space(env.observation_space)
    agent = ActorCritic(space, env.action_space, rng, torch.device("cpu"))
    for _ in range(20):
        agent.normalized(rng.normal(1.0, 2.0, space.shape), update=True)
    agent.save(run_dir, RunArgs(env_id=trained_on or env_id), global_step=1)
    return agent


@pytest.mark.parametrize(
    ("prior", "source"),
    [
        ("none", PriorSource("none")),
        ("random", PriorSource("random")),
        ("expert:runs/a", PriorSource("expert", "runs/a")),
        ("auto", PriorSource("auto")),
        ("auto:a/pile", PriorSource("auto", "a/pile")),
        ("trusted:C:/mine.py", PriorSource("trusted", "C:/mine.py")),
        ("Ant-v4", PriorSource("code", "Ant-v4")),
        ("my_package:mine/Env-v0", PriorSource("code", "my_package:mine/Env-v0")),
        ("none:of/these", PriorSource("code", "none:of/these")),
        ("trusted", PriorSource("code", "trusted")),
    ],
)
def test_what_a_prior_stands_for(prior, source):
    assert PriorSource.parse(prior) == source


@pytest.mark.parametrize(
    ("prior", "arm"),
    [
        ("none", "none"),
        ("random", "random"),
        ("expert:runs/a", "expert"),
        ("auto", "auto"),
        ("auto:a/pile", "pile"),
        ("Ant-v4", "llm"),
        (ONE_STEP, "llm"),  # its candidates, of which none is a default
        ("a/mine.py", "mine"),
        ("trusted:a/mine.py", "mine"),
        ("policies/Hopper-v3/", "Hopper-v3"),
    ],
)
def test_an_arm_is_called_after_its_prior(prior, arm):
    assert arm_name(arguments(prior)) == arm


class TestCheck:
    def test_the_shipped_prior_is_the_environments(self):
        for env_id, candidate in (("Hopper-v4", None), ("Pendulum-v1", 3)):
            args = arguments("shipped", env_id, candidate=candidate)
            check_prior(args)
            assert args.prior == env_id

    @pytest.mark.parametrize(
        ("args", "message"),
        [
            *(
                (arguments(prior, candidate=2), f"--candidate 2 needs a shipped prior or a folder, got --prior {prior}")
                for prior in ("none", "random", "auto", "auto:a/pile", "expert:a")
            ),
            *(
                (arguments(prior, prior_input="ram"), f"--prior-input ram needs a prior that is code, got --prior {prior}")
                for prior in ("none", "random", "expert:a")
            ),
        ],
    )
    def test_what_does_not_go_together(self, args, message):
        with pytest.raises(UserError) as error:
            check_prior(args)
        assert message in str(error.value)


class TestLoad:
    def test_none(self):
        assert load_priors(arguments("none"), OneStep()) == {}

    @pytest.mark.parametrize("prior", ["none:mine.py", "random:mine.py"])
    def test_what_takes_no_path_is_refused_with_one(self, prior):
        with pytest.raises(UserError, match=f"--prior {prior}: no file at"):
            load_priors(arguments(prior), OneStep())

    def test_a_random_prior_is_of_the_runs_seed_and_fixed_for_an_observation(self):
        env = gym.make("llmwrappers-tests/Reach-v0")
        first, again, other = (load_priors(arguments("random", seed=seed), env)["random"] for seed in (1, 1, 2))
        a, b = np.array([0.5, -0.5], np.float32), np.array([0.5, -0.25], np.float32)
        np.testing.assert_array_equal(first(a), again(a))
        assert len({tuple(answer) for answer in (first(a), first(b), other(a))}) == 3
        answers = np.array([first(np.array([x, 0.0], np.float32)) for x in np.linspace(-5, 5, 500)])
        np.testing.assert_allclose(answers.mean(axis=0), 0.0, atol=0.1)
        assert (np.abs(answers) <= 1).all()
        assert (np.abs(answers).max(axis=0) > 0.95).all()

    def test_a_random_prior_of_a_discrete_space_allows_one_action(self):
        (policy,) = load_priors(arguments("random"), Turns(n=4, start=2)).values()
        answers = [policy(np.array([x], np.float32)) for x in np.linspace(0, 1, 100)]
        assert {len(answer) for answer in answers} == {1}
        assert set.union(*answers) == {2, 3, 4, 5}

    @pytest.mark.parametrize("kind", ["", "trusted:"])
    def test_a_file(self, tmp_path, kind):
        ((name, policy),) = load_priors(arguments(kind + write(tmp_path / "mine.py", "[obs[1]]")), OneStep()).items()
        assert name == "mine"
        assert float(policy(np.array([0.1, 0.2]))[0]) == pytest.approx(0.2)

    def test_code_that_is_not_trusted_can_only_compute(self, tmp_path):
        (tmp_path / "mine.py").write_text("import os\n\ndef policy(obs):\n    return [len(os.sep) / 2]\n")
        with pytest.raises(UserError, match="line 1: import of os, which a policy cannot use"):
            load_priors(arguments(str(tmp_path / "mine.py")), OneStep())
        (policy,) = load_priors(arguments(f"trusted:{tmp_path / 'mine.py'}"), OneStep()).values()
        assert policy(np.zeros(2)) == [0.5]

    def test_a_candidate(self):
        env = gym.make("Pendulum-v1")
        third = load_priors(arguments("Pendulum-v1", "Pendulum-v1", candidate=3), env)
        everyone = load_priors(arguments("auto", "Pendulum-v1"), env)
        assert list(third) == ["policy-3"]
        assert list(everyone) == [f"policy-{number}" for number in range(1, 6)]
        observation = env.reset(seed=0)[0]
        np.testing.assert_array_equal(third["policy-3"](observation), everyone["policy-3"](observation))

    def test_a_folder(self, tmp_path):
        for number in (1, 2):
            write(tmp_path / f"policy-{number}.py", f"[0.{number}]")
        provenance = {"candidates": {"1": {"policy_sha256": ""}, "2": {"policy_sha256": ""}}, "default": {"candidate": 2}}
        (tmp_path / "provenance.json").write_text(json.dumps(provenance))
        (policy,) = load_priors(arguments(str(tmp_path)), OneStep()).values()
        assert policy(np.zeros(2)) == pytest.approx(0.2)
        assert list(load_priors(arguments(f"auto:{tmp_path}"), OneStep())) == ["policy-1", "policy-2"]

    @pytest.mark.parametrize("kind", ["", "auto:"])
    def test_a_folder_for_another_environment_is_refused_unless_it_is_asked_for(self, tmp_path, kind):
        write(tmp_path / "policy-1.py", "[0.1]")
        provenance = {"serves": ["A/Push-v1"], "candidates": {"1": {"policy_sha256": ""}}, "default": {"candidate": 1}}
        (tmp_path / "provenance.json").write_text(json.dumps(provenance))
        prior = f"{kind}{tmp_path}"
        with pytest.raises(UserError, match=f"written for A/Push-v1, not for {ONE_STEP}; .*--prior-of-another-env"):
            load_priors(arguments(prior), gym.make(ONE_STEP))
        assert load_priors(arguments(prior, prior_of_another_env=True), gym.make(ONE_STEP))
        assert load_priors(arguments(prior), OneStep())  # which has no id
        provenance["serves"] = ["llmwrappers-tests/OneStep-v7"]
        (tmp_path / "provenance.json").write_text(json.dumps(provenance))
        assert load_priors(arguments(prior), gym.make(ONE_STEP))  # of another version

    @pytest.mark.parametrize(
        ("code", "fault"),
        [
            ("    return [1 / 0]", "line 2: ZeroDivisionError: division by zero"),
            ("    return obs", r"ValueError: the prior returned shape \(2,\), the action space has \(1,\)"),
        ],
    )
    @pytest.mark.parametrize("kind", ["", "trusted:"])
    def test_a_file_that_fails_in_its_first_steps_is_refused_and_a_pile_is_not(self, tmp_path, kind, code, fault):
        path = tmp_path / "mine.py"
        path.write_text(f"def policy(obs):\n{code}\n")
        with pytest.raises(UserError, match=rf"--prior {kind}{path}: mine failed \({fault}.*\)\. Mend it, or"):
            load_priors(arguments(f"{kind}{path}"), OneStep())
        assert list(load_priors(arguments(f"auto:{tmp_path}"), OneStep())) == ["mine"]

    def test_an_error_of_the_environment_is_none_of_the_prior(self, tmp_path):
        env = OneStep()
        env.step = lambda action: int("broken")
        with pytest.raises(ValueError, match=r"^invalid literal"):
            load_priors(arguments(write(tmp_path / "mine.py", "[0.5]")), env)

    @pytest.mark.parametrize(("fails_at", "is_refused"), [(200, True), (201, False)])
    def test_what_fails_later_is_not_known_yet(self, tmp_path, fails_at, is_refused):
        path = tmp_path / "late.py"
        path.write_text(f"n = 0\n\ndef policy(obs):\n    global n\n    n += 1\n    return [1 / (n != {fails_at})]\n")
        args, env = arguments(str(path)), Echo(shape=(1,), steps=1000)
        if is_refused:
            with pytest.raises(UserError, match=r"late failed \(line 6: ZeroDivisionError"):
                load_priors(args, env)
        else:
            assert list(load_priors(args, env)) == ["late"]

    @pytest.mark.parametrize(
        ("prior", "others", "message"),
        [
            ("Ant-v9", {}, f"--env-id {ONE_STEP} --prior Ant-v9: no prior named 'Ant-v9'"),
            ("missing.py", {}, "missing.py"),
            ("trusted:missing.py", {}, "missing.py"),
            ("auto", {}, f"no prior is shipped for {ONE_STEP}"),
            (f"package:{ONE_STEP}", {}, f"no prior is shipped for package:{ONE_STEP}: have a model write one"),
            ("auto:nowhere", {}, "no prior named 'nowhere'"),
            ("Ant-v4", {"candidate": 6, "env_id": "Ant-v4"}, "candidate must be one of [1, 2, 3, 4, 5]"),
            ("Ant-v4", {"env_id": "Hopper-v4"}, "written for Ant-v4, Ant-v5, not for Hopper-v4; "),
            ("mine.py", {"env_id": "Blackjack-v1"}, "mine failed (ValueError: the prior answered with action 0.1, which "),
        ],
    )
    def test_what_is_not_there_is_named(self, tmp_path, monkeypatch, prior, others, message):
        monkeypatch.chdir(tmp_path)
        write(tmp_path / "mine.py", "[0.1]")
        args = arguments(prior, **others)
        with pytest.raises(UserError) as error:
            load_priors(args, gym.make(args.env_id))
        assert message in str(error.value)


class TestExpert:
    @pytest.mark.parametrize("env_id", [ONE_STEP, "llmwrappers-tests/DictOneStep-v0", "llmwrappers-tests/Turns-v0"])
    def test_an_agent_of_a_ppo_script_plays_its_most_probable_action(self, tmp_path, env_id):
        agent = save_agent(tmp_path, env_id)
        env = gym.make(env_id)
        (policy,) = load_priors(arguments(f"expert:{tmp_path}", env_id), env).values()
        for _ in range(5):
            observation = env.observation_space.sample()
            action = agent.act(np.asarray(gym.spaces.flatten(env.observation_space, observation)))
            expected = {action} if isinstance(action, int) else action
            np.testing.assert_array_equal(policy(observation), expected)

    @pytest.mark.parametrize("activation", [torch.nn.ReLU, torch.nn.Tanh])
    def test_an_actor_of_td3_plays_in_native_units(self, tmp_path, activation):
        """Also one whose layers are not the script's own. Another version of its environment will do."""
        env, actor = gym.make("Pendulum-v1"), mlp([3, 8, 1], activation)
        facts = {"env_id": "Pendulum-v0", "env_kwargs": "{}", "script": "td3_camel", "head": "tanh"}
        write_agent(tmp_path, facts, layers_of(actor) or [], env.action_space, {})
        (policy,) = load_priors(arguments(f"expert:{tmp_path / AGENT_FILE}", "Pendulum-v1"), env).values()
        observation = env.reset(seed=0)[0]
        x = np.tanh(actor(torch.from_numpy(observation)).detach().numpy())
        np.testing.assert_allclose(policy(observation), 2.0 * x, rtol=1e-5)

    def test_what_is_no_expert_here(self, tmp_path):
        save_agent(tmp_path, "Pendulum-v1")
        with pytest.raises(UserError, match=f"its env_id is Pendulum-v1, --env-id is {ONE_STEP}"):
            load_priors(arguments(f"expert:{tmp_path}"), OneStep())
        save_agent(tmp_path, "Pendulum-v1", trained_on=ONE_STEP)
        with pytest.raises(UserError, match=f"the agent of {ONE_STEP} reads 3 numbers, the observation has 2"):
            load_priors(arguments(f"expert:{tmp_path}"), OneStep())
        with pytest.raises(UserError, match="no agent at .*missing: a finished run leaves agent.npz in its folder"):
            load_priors(arguments(f"expert:{tmp_path / 'missing'}"), OneStep())
        with pytest.raises(UserError, match=r"policy\.py is no agent.npz of these scripts .*; give the run's folder"):
            load_priors(arguments(f"expert:{write(tmp_path / 'policy.py', '[0.0]')}"), OneStep())


class TestFiles:
    def test_the_users_own_are_hashed(self, tmp_path):
        path = write(tmp_path / "mine.py", "[0.1]")
        expected = {"prior": hashlib.sha256(Path(path).read_bytes()).hexdigest()}
        for prior in (path, f"trusted:{path}", f"expert:{path}", str(tmp_path), f"auto:{tmp_path}"):
            assert prior_files(arguments(prior)) == expected

    def test_the_default_of_a_folder_counts(self, tmp_path):
        write(tmp_path / "policy-1.py", "[0.1]")
        before = prior_files(arguments(str(tmp_path)))
        (tmp_path / "provenance.json").write_text("{}")
        assert prior_files(arguments(str(tmp_path))) != before

    @pytest.mark.parametrize("prior", ["none", "random", "auto", "Ant-v4"])
    def test_what_is_not_the_users_has_none(self, prior, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        write(tmp_path / "mine.py", "[0.1]")
        assert prior_files(arguments(prior)) == {}
