"""The shipped priors: data, policies, loader and command."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from conftest import ROOT, Echo, OneStep, Turns

import llmwrappers.priors
from llmwrappers import LLMActionMask, PolicyFault, PolicyRejected
from llmwrappers.containment.policy import ContainedPolicy
from llmwrappers.containment.program import Program
from llmwrappers.making import make
from llmwrappers.priors import NoPrior, load_candidates, load_prior, shipped_priors
from llmwrappers.priors.__main__ import main
from llmwrappers.priors.contract import PriorObject, begin_episode
from llmwrappers.priors.measurement import RULE, Measurement, choose, measure, play, random_actions, steadiness

FOLDERS = sorted(path.parent for path in llmwrappers.priors.SHIPPED.glob("*/provenance.json"))
PROVENANCE = {folder.name: json.loads((folder / "provenance.json").read_text("utf-8")) for folder in FOLDERS}
CANDIDATES = [(env_id, int(number)) for env_id, facts in PROVENANCE.items() for number in facts["candidates"]]
BY_RULE = [env_id for env_id, facts in PROVENANCE.items() if facts["default"]["rule"] == RULE]
WITH_V5 = [
    (env_id, number) for env_id, number in CANDIDATES if env_id.replace("-v4", "-v5") in PROVENANCE[env_id]["serves"][1:]
]

pytestmark = pytest.mark.filterwarnings("ignore:.*is out of date.*:DeprecationWarning")


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def rollout(env_id: str, policy, steps: int = 30) -> list[np.ndarray]:
    """Returns the observations that a policy meets from a seeded reset."""
    env = gym.make(env_id)
    observation, _ = env.reset(seed=0)
    observations = [observation]
    for _ in range(steps):
        observation, _, terminated, truncated, _ = env.step(policy(observation.copy()).astype(np.float32))
        observations.append(observation)
        if terminated or truncated:
            break
    env.close()
    return observations


class TestShippedData:
    @pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
    def test_provenance_describes_the_folder(self, folder):
        facts = PROVENANCE[folder.name]
        assert facts["environment"] == folder.name
        assert facts["environment"] in facts["serves"]
        assert all([facts["model"], facts["replies"], facts["default"]["measured"]])
        assert facts["default"]["rule"] == RULE or "--replay" in facts["default"]["command"]  # the others were trained
        assert str(facts["default"]["candidate"]) in facts["candidates"]
        assert sha256(folder / "prompt.txt") == facts["prompt_sha256"]
        for pattern in ("reply-*.md", "policy-*.py"):
            found = {path.name for path in folder.glob(pattern)}
            assert found == {pattern.replace("*", number) for number in facts["candidates"]}

    @pytest.mark.parametrize(("env_id", "number"), CANDIDATES)
    def test_policy_is_the_code_block_of_its_unedited_reply(self, env_id, number):
        folder = llmwrappers.priors.SHIPPED / env_id
        reply, policy = folder / f"reply-{number}.md", folder / f"policy-{number}.py"
        hashes = PROVENANCE[env_id]["candidates"][str(number)]
        assert sha256(reply) == hashes["reply_sha256"]
        assert sha256(policy) == hashes["policy_sha256"]
        blocks = re.findall(rb"^```python\n(.*?)^```$", reply.read_bytes(), re.DOTALL | re.MULTILINE)
        assert blocks == [policy.read_bytes()]


class TestShippedPolicies:
    @pytest.mark.parametrize(("env_id", "number"), CANDIDATES)
    def test_actions_lie_in_the_action_space(self, env_id, number):
        policy = load_prior(env_id, number)
        env = gym.make(env_id)
        space = env.action_space
        env.close()  # what Box2D leaves to the garbage collector can crash the interpreter
        for observation in rollout(env_id, policy):
            action = policy(observation)
            assert action.shape == space.shape
            assert space.contains(action.astype(np.float32))

    @pytest.mark.parametrize(("env_id", "number"), CANDIDATES)
    def test_a_policy_is_a_pure_function_of_the_observation(self, env_id, number):
        policy = load_prior(env_id, number)
        observations = rollout(env_id, policy)
        copies = [observation.copy() for observation in observations]
        forward = [policy(observation) for observation in observations]
        backward = [policy(observation) for observation in reversed(observations)]
        np.testing.assert_array_equal(forward, backward[::-1])
        np.testing.assert_array_equal(observations, copies)

    @pytest.mark.parametrize(("env_id", "number"), WITH_V5)
    def test_v5_begins_with_the_v4_observation_and_gets_the_same_action(self, env_id, number):
        policy = load_prior(env_id, number)
        v5_id = env_id.replace("-v4", "-v5")
        v5_policy = load_prior(v5_id, number)
        v4, v5 = gym.make(env_id).unwrapped, gym.make(v5_id).unwrapped
        observation, _ = v4.reset(seed=3)
        v5.reset(seed=3)
        for _ in range(10):
            v5.set_state(v4.data.qpos, v4.data.qvel)  # type: ignore[attr-defined]
            v5_observation = v5._get_obs()  # type: ignore[attr-defined]
            np.testing.assert_array_equal(v5_observation[: len(observation)], observation)
            action = policy(observation)
            np.testing.assert_array_equal(v5_policy(v5_observation), action)
            observation, *_ = v4.step(action)

    @pytest.mark.slow
    @pytest.mark.parametrize("env_id", BY_RULE)
    def test_the_default_is_what_the_rule_takes(self, env_id):
        env = make(env_id)
        measurements = {
            int(number): measure(env, load_prior(env_id, int(number)), episodes=20, seed=0)
            for number in PROVENANCE[env_id]["candidates"]
        }
        assert choose(measurements) == PROVENANCE[env_id]["default"]["candidate"]


class TestLoadPrior:
    def write(self, tmp_path: Path, source: str) -> Path:
        path = tmp_path / "my_policy.py"
        path.write_text(source, encoding="utf-8")
        return path

    @pytest.mark.parametrize("env_id", shipped_priors())
    def test_a_name_gives_the_default_candidate(self, env_id):
        facts = next(facts for facts in PROVENANCE.values() if env_id in facts["serves"])
        default = load_prior(env_id, facts["default"]["candidate"])
        assert load_prior(env_id).source == default.source
        chosen = [facts for facts in PROVENANCE.values() if facts["default"]["candidate"] is not None]
        assert shipped_priors() == sorted(name for facts in chosen for name in facts["serves"])

    def test_candidate_chooses_another(self):
        folder = llmwrappers.priors.SHIPPED / "Ant-v4"
        assert load_prior("Ant-v5", candidate=3).source == (folder / "policy-3.py").read_text("utf-8")
        assert load_prior("Ant-v5", candidate=4).source == (folder / "policy-4.py").read_text("utf-8")

    def test_a_path_as_string_or_path_object(self, tmp_path):
        path = self.write(tmp_path, "def policy(obs):\n    return 2 * obs\n")
        for prior in (path, str(path)):
            assert load_prior(prior)([3]).tolist() == [6.0]

    def test_a_trusted_file_may_do_anything_and_another_only_compute(self, tmp_path):
        path = self.write(tmp_path, "import os\n\ndef policy(obs):\n    return [os.getpid()]\n")
        with pytest.raises(PolicyRejected, match=r"line 1: import of os, .*'trusted:.*my_policy.py' plays code of your own"):
            load_prior(path)
        assert load_prior(f"trusted:{path}")(0) == [os.getpid()]
        path = self.write(tmp_path, f"import numpy\n\ndef policy(obs):\n    return numpy.fromfile({str(path)!r}, 'u1')\n")
        assert bytes(load_prior(f"trusted:{path}")(0)) == path.read_bytes()
        with pytest.raises(PolicyFault, match="line 4: PermissionError"):
            load_prior(path)(0)

    def test_what_is_shipped_plays_here_and_a_copy_that_has_changed_in_a_process(self, tmp_path, monkeypatch):
        shipped = llmwrappers.priors.SHIPPED / "Pendulum-v1"
        assert isinstance(load_prior(shipped), Program)
        copied = shutil.copytree(shipped, tmp_path / "Pendulum-v1")
        assert isinstance(load_prior(copied), ContainedPolicy)
        monkeypatch.setattr(llmwrappers.priors, "SHIPPED", tmp_path)
        assert isinstance(load_prior("Pendulum-v1", candidate=2), Program)
        with open(copied / "policy-2.py", "a") as file:
            file.write("# changed\n")
        assert isinstance(load_prior("Pendulum-v1", candidate=2), ContainedPolicy)
        assert isinstance(load_prior("Pendulum-v1", candidate=3), Program)

    def test_a_callable_is_returned_as_it_is(self):
        def policy(obs):
            return obs

        assert load_prior(policy) is policy

    def test_a_class_or_an_object_with_act_is_made_callable(self):
        class Pusher:
            def act(self, obs):
                return [obs + 1]

        for prior in (Pusher, Pusher()):
            assert load_prior(prior)(2) == [3]

    def test_loads_share_no_state_which_lives_for_an_episode(self, tmp_path):
        path = self.write(tmp_path, "calls = []\ndef policy(obs):\n    calls.append(obs)\n    return [len(calls)]\n")
        for prior in (f"trusted:{path}", path):
            first, second = load_prior(prior), load_prior(prior)
            assert [float(answer[0]) for answer in (first(0), first(0), second(0))] == [1, 2, 1]
            begin_episode(first)
            assert [float(answer[0]) for answer in (first(0), second(0))] == [1, 2]

    def test_a_trusted_file_imports_what_lies_beside_it(self, tmp_path, monkeypatch):
        monkeypatch.setattr(sys, "path", [*sys.path])
        (tmp_path / "gains_beside.py").write_text("K = 3.0\n")
        path = tmp_path / "my_policy.py"
        path.write_text("from gains_beside import K\n\ndef policy(obs):\n    return [K]\n")
        assert load_prior(f"trusted:{path}")(0) == [3.0]

    def test_a_trusted_file_does_not_run_as_main(self, tmp_path):
        path = self.write(tmp_path, "def policy(obs):\n    return __name__, __file__\n")
        assert load_prior(f"trusted:{path}")(0) == ("llmwrappers_policy", str(path))

    def test_unknown_name(self):
        with pytest.raises(NoPrior, match=r"no prior named 'Antt-v4': it is no file, .* did you mean Ant-v4, Ant-v5\?"):
            load_prior("Antt-v4")

    @pytest.mark.parametrize("candidate", [0, 6, -1])
    def test_unknown_candidate(self, candidate):
        message = rf"candidate must be one of \[1, 2, 3, 4, 5\] for the prior 'Ant-v5', got {candidate}"
        with pytest.raises(ValueError, match=message):
            load_prior("Ant-v5", candidate)

    def test_candidate_with_a_path_or_a_callable(self, tmp_path):
        path = self.write(tmp_path, "def policy(obs):\n    return obs\n")
        for prior in (str(path), path, len, "Antt-v4"):
            with pytest.raises(
                ValueError, match=r"candidate chooses among the policies of a shipped prior.*got candidate=2 with"
            ):
                load_prior(prior, candidate=2)

    @pytest.mark.parametrize("provenance", ["{}", "[1]", "{", '{"candidates": {}, "default": 1}'])
    def test_a_provenance_that_names_no_candidates(self, tmp_path, provenance):
        (tmp_path / "policy-1.py").write_text("def policy(obs):\n    return [1.0]\n")
        (tmp_path / "provenance.json").write_text(provenance)
        with pytest.raises(ValueError, match="must name 'candidates' and a 'default', as local_llm.write_policy writes it"):
            load_prior(tmp_path)
        with pytest.raises(ValueError, match="must name 'candidates' and a 'default'"):
            LLMActionMask(gym.make("Pendulum-v1"), tmp_path)

    def test_missing_file(self, tmp_path):
        for prior in (str(tmp_path / "missing.py"), tmp_path / "missing.py", tmp_path):
            with pytest.raises(FileNotFoundError, match=re.escape(str(prior))):
                load_prior(prior)

    @pytest.mark.parametrize(
        ("source", "trusted", "contained"),
        [
            ("def policy(obs)\n", "line 1: SyntaxError: expected ':' .*my_policy.py'", "line 1: SyntaxError.*my_policy"),
            (
                "def policy(obs): pass\n1 / 0\n",
                "line 2: its top level fails: ZeroDivisionError: division by zero .*my_policy.py'",
                "line 2: its top level fails: ZeroDivisionError: division by zero",
            ),
            (
                "import a_module\ndef policy(obs):\n    a_module.x\n",
                "line 1: its top level fails: ModuleNotFoundError",
                "line 1: import of a_module, which a policy cannot use",
            ),
            (
                "def act(obs):\n    return obs\n",
                r"must define policy\(obs\), or a class Policy .*; found neither",
                r"it defines neither policy\(obs\) nor a class Policy at its top level .*my_policy",
            ),
            ("policy = 3\n", r"must define policy\(obs\), or a class Policy with act or __call__; found 3", "; found 3"),
        ],
    )
    def test_unusable_file(self, tmp_path, source, trusted, contained):
        path = self.write(tmp_path, source)
        with pytest.raises(PolicyRejected, match=trusted):
            load_prior(f"trusted:{path}")
        with pytest.raises((PolicyRejected, PolicyFault), match=contained):
            load_prior(path)(np.zeros(1))  # its top level is executed at the first call

    def test_the_names_of_a_file_that_is_refused(self, tmp_path):
        path = self.write(tmp_path, "import os\ndef policy(obs):\n    return os.sep\n")
        with pytest.raises(PolicyRejected, match=r"my_policy\.py") as caught:
            load_prior(path)
        assert caught.value.line == 1
        path.write_bytes(b"\xff")
        with pytest.raises(PolicyRejected, match=r"my_policy\.py' is not text in UTF-8, so it is no Python file"):
            load_prior(path)

    def test_no_trust_helps_a_file_without_a_policy(self, tmp_path):
        path = self.write(tmp_path, "def heuristic(obs):\n    return obs\n")
        with pytest.raises(PolicyRejected, match=r"defines neither policy\(obs\) nor .*\(in '.*my_policy\.py'\)$"):
            load_prior(path)

    def test_a_model_of_stable_baselines3_names_its_policy(self):
        model = type("Model", (), {"predict": lambda self, obs, deterministic: (obs, None)})()
        with pytest.raises(TypeError, match=r"its policy is lambda obs: model\.predict\(obs, deterministic=True\)\[0\]"):
            load_prior(model)

    def test_a_controller_whose_method_has_another_name(self):
        controller = type("Pid", (), {"get_action": lambda self, obs: [0.0]})
        for prior, owner in ((controller(), "controller"), (controller, r"Pid\(\)")):
            with pytest.raises(TypeError, match=rf"give that method: prior={owner}\.get_action$"):
                load_prior(prior)
        with pytest.raises(TypeError, match=r"prior=controller\.predict$"):  # of scikit-learn's form
            load_prior(type("Tree", (), {"predict": lambda self, obs: obs})())

    def test_a_trusted_script_reads_no_arguments_but_its_own(self, tmp_path):
        path = self.write(tmp_path, "import sys\nseen = sys.argv\ndef policy(obs):\n    return seen\n")
        before = list(sys.argv)
        assert load_prior(f"trusted:{path}")(0) == [str(path)]
        assert sys.argv == before

    def test_a_trusted_script_that_exits_ends_nothing(self, tmp_path):
        path = self.write(tmp_path, "import sys\ndef policy(obs):\n    return [0.0]\nsys.exit()\n")
        with pytest.raises(PolicyRejected, match=r"line 4: its top level fails: SystemExit: ; what only a script .*__main__"):
            load_prior(f"trusted:{path}")

    @pytest.mark.parametrize("prior", [None, 3, ["Ant-v4"]])
    def test_neither_name_nor_path_nor_callable(self, prior):
        message = f"prior must be .*got {re.escape(repr(prior))} of type {type(prior).__name__}"
        with pytest.raises(TypeError, match=message):
            load_prior(prior)


def test_of_a_folder_of_files_one_is_to_be_named(tmp_path):
    for name in ("a.py", "b.py"):
        (tmp_path / name).write_text("def policy(obs):\n    return [0.0]\n")
    with pytest.raises(NoPrior, match=r"no provenance\.json in the folder .*, which holds a\.py, b\.py: give a file, .*a\.py"):
        load_prior(str(tmp_path))
    assert [*load_candidates(tmp_path)] == ["a", "b"]
    with pytest.raises(NoPrior, match=r"a\.py' is one file, candidates are a folder: give its folder"):
        load_candidates(tmp_path / "a.py")


def test_what_is_shipped_plays_in_this_process_wherever_the_package_is(tmp_path):
    (tmp_path / "link").symlink_to(ROOT)
    command = "import llmwrappers.priors; print(llmwrappers.__file__, llmwrappers.priors.load_prior('Hopper-v4'))"
    said = subprocess.run(
        [sys.executable, "-c", command], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(tmp_path / "link")},
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert said.startswith(str(tmp_path / "link"))
    assert said.endswith("plays in this process>\n")


def test_all_candidates_of_a_name_and_of_a_folder(tmp_path):
    assert list(load_candidates("Hopper-v4")) == [f"policy-{number}" for number in range(1, 6)]
    (tmp_path / "left.py").write_text("def policy(obs):\n    return [-1.0]\n")
    (tmp_path / "right.py").write_text("def policy(obs):\n    return [1.0]\n")
    assert list(load_candidates(tmp_path)) == ["left", "right"]
    (tmp_path / "evil.py").write_text("import os\n\n\ndef policy(obs):\n    return [os.getpid()]\n")
    with pytest.warns(UserWarning, match=r"left out: .*evil\.py"):
        assert list(load_candidates(tmp_path)) == ["left", "right"]


class TestRule:
    def test_standing_still_does_not_win(self):
        stands_still = Measurement(returns=[1034.0], distances=[0.3])
        hops = Measurement(returns=[900.0], distances=[6.0])
        assert choose({1: stands_still, 2: hops}) == 2

    def test_neither_does_the_furthest_at_any_price(self):
        careful = Measurement(returns=[900.0], distances=[3.1])
        dashes = Measurement(returns=[100.0], distances=[6.0])
        assert choose({1: careful, 2: dashes}) == 1

    def test_a_fault_disqualifies(self):
        assert choose({1: Measurement(returns=[9.0], faults=1), 2: Measurement(returns=[1.0])}) == 2
        assert choose({1: Measurement(returns=[9.0], faults=1)}) is None

    def test_without_positions_return_decides(self):
        assert choose({1: Measurement(returns=[1.0]), 2: Measurement(returns=[2.0])}) == 2

    def test_when_all_travel_backward(self):
        assert choose({1: Measurement([5.0], distances=[-4.0]), 2: Measurement([1.0], distances=[-1.0])}) == 2


class TestMeasure:
    def test_a_scalar_action(self):
        measurement = measure(Echo(shape=()), lambda obs: 1.0, episodes=1, seed=0)
        assert (measurement.saturation, measurement.chatter) == (1.0, 0.0)

    @pytest.mark.parametrize(
        ("policy", "message"),
        [
            (lambda obs: 1 / 0, "ZeroDivisionError: division by zero"),
            (lambda obs: np.zeros(2), r"ValueError: the prior returned shape (2,), the action space has (1,)"),
            (lambda obs: np.array([np.nan]), "ValueError: the prior returned [nan]"),
            (lambda obs: None, "TypeError: the prior returned None; the action space takes numbers of shape (1,)"),
        ],
    )
    def test_faults_are_counted_and_named(self, policy, message):
        measurement = measure(make("Pendulum-v1"), policy, episodes=1, seed=0)
        assert (measurement.faults, measurement.first_fault) == (200, message)

    def test_saturation_is_measured_after_clipping(self):
        def policy(obs):
            obs[:] = np.nan  # the environment must not see this
            return np.array([9.0])

        measurement = measure(make("Pendulum-v1"), policy, episodes=2, seed=0)
        assert measurement.saturation == 1.0
        assert (measurement.steps, measurement.distances, measurement.faults) == ([200, 200], [], 0)
        assert np.isfinite(measurement.returns).all()

    def test_chatter_is_the_mean_change_over_the_range(self):
        """Actions 0, 2, 0, 2, 0 in [-1, 3] change by half the range; the component that cannot move is left out."""
        low, high = np.array([-1.0, 5.0], np.float32), np.array([3.0, 5.0], np.float32)
        env = Echo(low, high)  # type: ignore[arg-type]
        measurement = measure(env, lambda obs: [2.0 * (obs[0] % 2), 5.0], episodes=2, seed=0)
        assert (measurement.chatter, measurement.saturation) == (0.25, 0.0)

    def test_survival_and_endings_tell_a_fall_from_a_time_limit(self):
        falls = measure(make("Hopper-v5"), lambda obs: np.ones(3), episodes=2, seed=0)
        assert falls.terminated == 2
        assert falls.survival == pytest.approx(np.mean(falls.steps) / 1000)
        stays = measure(make("Pendulum-v1"), lambda obs: [0.0], episodes=2, seed=0)
        assert (stays.terminated, stays.survival) == (0, 1.0)

    def test_one_step_without_a_time_limit(self):
        measurement = measure(OneStep(), lambda obs: [0.8], episodes=3, seed=0)
        assert measurement.returns == pytest.approx([0.0, 0.0, 0.0])
        assert (measurement.survival, measurement.chatter, measurement.steadiness) == (None, None, None)

    def test_steadiness_is_about_the_speed_in_windows(self):
        there_and_back = [*range(50), *range(50, -1, -1)]
        assert steadiness(list(range(101))) == steadiness(list(range(0, -101, -1))) == 1.0
        assert steadiness(there_and_back) == steadiness([0.0] * 101) == steadiness([1.0, 2.0]) == 0.0
        assert steadiness([float("nan")] * 101) == 0.0
        # Windows that cover 1 and 3 metres in turn: the mean is 2 and the standard deviation 1.
        assert steadiness(np.cumsum([0.0] + ([0.1] * 10 + [0.3] * 10) * 5).tolist()) == pytest.approx(0.5)

    def test_on_a_discrete_space_an_allowed_action_is_drawn(self):
        env, allowed = Turns(n=4, start=3, steps=50), [False, True, False, True]
        first = [step.action for step in play(env, lambda obs: np.array(allowed), seed=1)]
        again = [step.action for step in play(env, lambda obs: {4, 6}, seed=1)]
        assert set(first) == {4, 6}
        assert first == again
        assert first != [step.action for step in play(env, lambda obs: {4, 6}, seed=2)]
        measurement = measure(env, lambda obs: {4, 6}, episodes=1, seed=1)
        assert measurement.chatter == np.mean(np.diff(first) != 0)
        assert (measurement.saturation, measurement.faults) == (None, 0)

    def test_a_policy_that_keeps_state_begins_anew_at_every_episode(self):
        class Counter:
            calls = 0

            def act(self, obs):
                self.calls += 1
                return [self.calls / 10]

        first, again = ([step.action[0] for step in play(Echo(shape=(1,)), PriorObject(Counter), seed=s)] for s in (0, 1))
        assert first == again == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.5])

    def test_a_reset_that_fails_is_a_fault_of_the_first_step(self):
        def policy(obs):
            return [0.0]

        policy.reset = lambda: 1 / 0
        measurement = measure(Echo(shape=(1,)), policy, episodes=2, seed=0)
        assert (measurement.faults, measurement.first_fault) == (2, "ZeroDivisionError: division by zero")

    def test_a_fault_names_the_line_of_a_file(self, tmp_path):
        path = tmp_path / "broken.py"
        path.write_text("import math\n\ndef policy(obs):\n    return [math.log(-1.0)]\n")
        for prior in (path, f"trusted:{path}"):
            assert measure(Echo(shape=(1,)), load_prior(prior), 1, 0).first_fault.startswith("line 4: ValueError: ")

    @pytest.mark.parametrize("answer", [2, True, np.int64(2), 2.0, {2}, [0, 0, 1, 0]])
    def test_on_a_discrete_space_an_action_may_be_answered(self, answer):
        steps = list(play(Turns(n=4, steps=30), lambda obs: answer, seed=0))
        assert {step.action for step in steps} == {1 if answer is True else 2}
        assert not any(step.fault for step in steps)

    @pytest.mark.parametrize("answer", [np.zeros(4, dtype=bool), {1, 9}, 4, -1, 2.5, np.zeros(3, dtype=bool)])
    def test_on_a_discrete_space_what_no_mask_can_use_is_a_fault(self, answer):
        measurement = measure(Turns(n=4, steps=30), lambda obs: answer, episodes=1, seed=0)
        assert measurement.faults == 30
        assert {step.action for step in play(Turns(n=4, steps=30), lambda obs: answer, seed=0)} == {0, 1, 2, 3}

    @pytest.mark.parametrize("env", [Echo(), Turns()])
    def test_random_actions_never_fault_and_repeat(self, env):
        first, again = (measure(env, random_actions(env.action_space, seed=3), episodes=2, seed=0) for _ in range(2))
        assert first.faults == 0
        assert first.returns == again.returns
        assert len(set(first.returns)) == 2

    def test_distance_is_the_change_of_x_position(self):
        env = make("Hopper-v5")
        measurement = measure(env, load_prior("Hopper-v5"), episodes=1, seed=0)
        traveled = env.unwrapped.data.qpos[0]  # type: ignore[attr-defined]
        assert measurement.distances == pytest.approx([traveled], abs=0.01)
        assert 0.5 < (measurement.steadiness or 0) < 1


class TestCommand:
    def test_prints_a_table_and_the_rules_choice(self):
        arguments = ["-W", "error", "-m", "llmwrappers.priors", "--env-id", "Hopper-v4", "--episodes", "1"]
        result = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False)
        assert (result.returncode, result.stderr) == (0, "")
        assert f"The rule: {RULE}." in result.stdout
        rows = re.findall(r"^(\d) +(\d+\.\d) \+- 0\.0 .* 0( +default)?$", result.stdout, re.MULTILINE)
        assert [number for number, *_ in rows] == ["1", "2", "3", "4", "5"]
        assert [number for number, _, mark in rows if mark] == ["5"]
        assert "The rule takes 5, the shipped default." in result.stdout

    @pytest.mark.parametrize("winner", [2, None])
    @pytest.mark.parametrize("env_id", ["Pendulum-v1", "Hopper-v5"])
    def test_notes_why_the_default_is_another_than_the_rules(self, capsys, monkeypatch, env_id, winner):
        """The reason is the one that stands with the default."""
        monkeypatch.setattr("llmwrappers.priors.__main__.choose", lambda measurements: winner)
        main(["--env-id", env_id, "--episodes", "1"])
        default = PROVENANCE[env_id.replace("-v5", "-v4")]["default"]
        takes = "by these episodes the rule takes 2" if winner else "every candidate faults here, so the rule takes none"
        note = f"note: {takes}. The default is {default['candidate']}, by what was measured when it was chosen: "
        lines = capsys.readouterr().out.splitlines()
        assert [line for line in lines if "rule takes" in line] == [note + default["measured"]]

    def test_measures_the_candidate_that_is_named(self, capsys):
        numbers = []
        for arguments in (["--candidate", "1"], ["--prior", "Hopper-v4", "--candidate", "1"], ["--prior", "Hopper-v4"]):
            main(["--env-id", "Hopper-v4", "--episodes", "1", *arguments])
            numbers.append(capsys.readouterr().out.splitlines()[-2].split()[1])
        assert numbers[0] == numbers[1] != numbers[2]

    def test_measures_a_users_policy(self, capsys, tmp_path):
        path = tmp_path / "my_policy.py"
        path.write_text("def policy(obs):\n    return [0.0] if obs[2] < 0 else [0.0, 0.0]\n")
        main(["--env-id", "Pendulum-v1", "--prior", str(path), "--episodes", "1"])
        out = capsys.readouterr().out
        (faults,) = re.findall(r"^yours .* (\d+)$", out, re.MULTILINE)
        assert 0 < int(faults) < 200
        assert "first fault: ValueError: the prior returned shape (2,), the action space has (1,)" in out
        assert "rule" not in out

    def test_a_policy_that_fails_in_every_call_has_no_return(self, capsys, tmp_path):
        path = tmp_path / "my_policy.py"
        path.write_text("def policy(obs):\n    return [0.0, 0.0]\n")
        with pytest.raises(SystemExit) as ended:
            main(["--env-id", "Pendulum-v1", "--prior", str(path), "--episodes", "1"])
        printed = capsys.readouterr()
        assert (ended.value.code, "yours" in printed.out) == (2, False)
        assert "failed in every call, so it has no return: ValueError: the prior returned shape (2,)" in printed.err

    def test_measures_in_the_environment_that_the_arguments_make(self, capsys):
        returns = []
        for kwargs in ("{}", '{"g": 1.62}'):
            main(["--env-id", "Pendulum-v1", "--env-kwargs", kwargs, "--candidate", "3", "--episodes", "1"])
            returns.append(capsys.readouterr().out.splitlines())
        assert returns[1][0] == 'Pendulum-v1 {"g": 1.62}, episodes seeded 0 to 0'
        policy, env = load_prior("Pendulum-v1", 3), make("Pendulum-v1", g=1.62)
        assert returns[1][2].split()[1] == f"{measure(env, policy, 1, 0).returns[0]:.1f}"
        assert returns[1][2].split()[1] != returns[0][2].split()[1]

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["--env-id", "Pendulum-v1", "--env-kwargs", "g=1"], "--env-kwargs must be a JSON object, .* got 'g=1'"),
            (["--env-id", "Pendulum-v1", "--env-kwargs", '{"mass": 1}'], "Pendulum-v1: .*unexpected keyword argument 'mass'"),
            (["--env-kwargs", '{"g": 1}'], "--env-kwargs needs --env-id"),
            (["--env-id", "Hoper-v4"], "Hoper-v4: no environment is called Hoper-v4; did you mean Hopper-v4"),
            (
                ["--env-id", "Swimmer-v5"],
                "Swimmer-v5: no prior is shipped for it; measure one of yours with --prior my_policy.py",
            ),
            (["--env-id", "llmwrappers-tests/Unbounded-v0", "--prior", "x.py"], "Unbounded-v0: needs a Discrete .* or a Box"),
            (["--env-id", "Pendulum-v1", "--prior", "missing.py"], "no file at 'missing.py'"),
            (["--env-id", "Hopper-v5", "--candidate", "9"], r"candidate must be one of \[1, 2, 3, 4, 5\].*got 9"),
            (["--prior", "x.py"], "--prior needs --env-id"),
            (["--episodes", "0"], "--episodes must be at least 1, got 0"),
            (["--seed", "-1"], "--seed must not be negative, got -1"),
        ],
    )
    def test_wrong_arguments_exit_with_2_and_say_why(self, capsys, arguments, message):
        with pytest.raises(SystemExit) as caught:
            main(arguments)
        assert caught.value.code == 2
        assert re.search(message, capsys.readouterr().err)
