"""The house rules that code can hold: imports, recorded arguments, rebuilding from a spec, docstrings, other libraries."""

import ast
import inspect
import re
import subprocess
import sys

import gymnasium as gym
import numpy as np
import pytest
from conftest import ROOT, Echo, Turns
from gymnasium.envs.registration import EnvSpec
from gymnasium.utils.env_checker import check_env, data_equivalence
from gymnasium.wrappers import RecordEpisodeStatistics

import llmwrappers
from llmwrappers import (
    ActionBoundsObservation,
    CriticalStateRewarder,
    CriticalStates,
    EpsilonMaskSchedule,
    LLMActionMask,
    LLMActionOverride,
)

# ---------------------------------------------------------------------------------------------------------------- source

STANDARD = set(sys.stdlib_module_names)
# Folder -> what it may import beside the standard library; inside a function, the second set too.
MAY_IMPORT = {
    "llmwrappers": (
        {"numpy", "gymnasium", "llmwrappers", "llmwrappers.containment"},
        {"ale_py", "minigrid", "scipy", "minari"},
    ),
    "llmwrappers/sb3": ({"numpy", "gymnasium", "torch", "stable_baselines3", "llmwrappers"}, set()),
    "llmwrappers/containment": ({"numpy", "llmwrappers.containment"}, set()),
    "local_llm": (
        {"numpy", "gymnasium", "llmwrappers", "llmwrappers.containment", "local_llm"},
        {"torch", "transformers", "accelerate", "huggingface_hub", "llguidance", "json_repair", "mujoco"},
    ),
    "local_llm/selection": (
        {"numpy", "gymnasium", "llmwrappers", "llmwrappers.containment", "local_llm", "cleanrl_scripts.comparison"},
        set(),
    ),
    "cleanrl_scripts": (
        {"torch", "tyro", "numpy", "gymnasium", "llmwrappers", "cleanrl_scripts.common", "cleanrl_scripts.learning"},
        {"wandb", "moviepy", "PIL"},
    ),
    "cleanrl_scripts/common": (
        {"torch", "tyro", "numpy", "gymnasium", "llmwrappers", "tqdm", "cleanrl_scripts.common"},
        {"wandb", "moviepy", "PIL"},
    ),
    "cleanrl_scripts/learning": (
        {"torch", "numpy", "scipy", "gymnasium", "llmwrappers", "cleanrl_scripts.common", "cleanrl_scripts.learning"},
        set(),
    ),
    "cleanrl_scripts/ultra": (
        {"torch", "tyro", "numpy", "scipy", "gymnasium", "llmwrappers", "tqdm"}
        | {"cleanrl_scripts.common", "cleanrl_scripts.learning", "cleanrl_scripts.ultra"},
        set(),
    ),
    "cleanrl_scripts/comparison": (
        {"numpy", "scipy", "matplotlib", "llmwrappers"}
        | {"cleanrl_scripts", "cleanrl_scripts.common", "cleanrl_scripts.comparison"},
        {"ray", "wandb"},
    ),
    "prompts": (set(), set()),
}
SOURCES = [
    (max((folder for folder in MAY_IMPORT if path.is_relative_to(ROOT / folder)), key=len), path)
    for top in ("llmwrappers", "local_llm", "cleanrl_scripts", "prompts")
    for path in sorted((ROOT / top).rglob("*.py"))
]
every_source = pytest.mark.parametrize(("folder", "path"), SOURCES, ids=[str(path.relative_to(ROOT)) for _, path in SOURCES])


def imports(tree: ast.AST, inside_a_function=False):
    """Yields (package, whether inside a function) of every import; of scripts and the containment with the folder."""
    for node in ast.iter_child_nodes(tree):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: a relative import"
            assert node.module is not None
            names = [node.module]
        for name in names:
            parts = name.split(".")
            yield (
                ".".join(parts[: 2 if parts[0] == "cleanrl_scripts" or parts[1:2] == ["containment"] else 1]),
                inside_a_function,
            )
        yield from imports(node, inside_a_function or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


@every_source
def test_a_file_imports_only_what_its_folder_may(folder, path):
    anywhere, lazily = MAY_IMPORT[folder]
    own_room = {"compare.py": {"cleanrl_scripts.comparison"}, "ppo_ultra.py": {"cleanrl_scripts.ultra"}}
    anywhere = anywhere | own_room.get(path.name, set())
    for name, inside_a_function in imports(ast.parse(path.read_text("utf-8"))):
        assert name in STANDARD | anywhere | (lazily if inside_a_function else set()), f"{folder} may not import {name} here"


@every_source
def test_files_can_be_read_in_one_sitting(folder, path):
    lines = len(path.read_text("utf-8").splitlines())
    wrapper = path.parent == ROOT / "llmwrappers" / "wrappers"
    scripts = {"ppo_camel.py", "ppo_ultra.py", "td3_camel.py"}  # an algorithm from top to bottom
    assert lines <= (250 if wrapper else 450 if path.name in scripts else 350)


def test_tests_mirror_the_source():
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        subject, folder = path.stem.removeprefix("test_"), path.parent.relative_to(ROOT / "tests")
        places = [ROOT / "llmwrappers" / folder, ROOT / folder]
        is_of_file, is_of_folder = any((place / f"{subject}.py").is_file() for place in places), subject == folder.name
        is_of_all = path.name in ("test_conventions.py", "test_hostile.py")  # of all files, and of all of the containment
        assert is_of_file or is_of_folder or is_of_all, path


def test_who_looks_around_sees_public_names_alone():
    assert set(dir(llmwrappers)) == {*llmwrappers.__all__, "__version__"}


def test_prompts_are_data():
    assert not [path for folder, path in SOURCES if folder == "prompts"]


def test_one_backend_alone_needs_torch():
    heavy = {"torch", "transformers"}
    users = [
        path.name
        for folder, path in SOURCES
        if folder == "local_llm" and heavy & {name for name, _ in imports(ast.parse(path.read_text("utf-8")))}
    ]
    assert len(users) <= 1


def test_the_package_works_where_torch_and_transformers_are_not_installed():
    code = """
import sys
sys.modules.update(dict.fromkeys(("torch", "transformers", "local_llm", "tyro")))  # None: importing it raises ImportError
import gymnasium as gym, llmwrappers
env = llmwrappers.LLMActionOverride(gym.make("Pendulum-v1"), lambda obs: ([0.5], 1.0))
env = llmwrappers.LLMActionMask(llmwrappers.CriticalStateRewarder(env, lambda obs: None), prior=lambda obs: obs[:1])
env = llmwrappers.ActionBoundsObservation(llmwrappers.EpsilonMaskSchedule(env, total_timesteps=10))
env.reset(seed=0)
env.step(env.action_space.sample())
assert callable(llmwrappers.load_prior("Ant-v4"))
unwelcome = {"torch", "transformers", "stable_baselines3", "tqdm", "matplotlib"}
assert not {name for name, module in sys.modules.items() if module} & unwelcome
"""
    command = [sys.executable, "-W", "error", "-c", code]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")


WRAPPERS = [
    (path, node)
    for _, path in SOURCES
    if path.parent == ROOT / "llmwrappers" / "wrappers"
    for node in ast.walk(ast.parse(path.read_text("utf-8")))
    if isinstance(node, ast.ClassDef) and any("Wrapper" in ast.unparse(base) for base in node.bases)
]
every_wrapper = pytest.mark.parametrize(("path", "node"), WRAPPERS, ids=[node.name for _, node in WRAPPERS])


def test_the_wrappers_are_found():
    masks = {"LLMActionMask", "EpsilonMaskSchedule", "ActionBoundsObservation"}
    assert {node.name for _, node in WRAPPERS} >= masks | {"LLMActionOverride", "CriticalStateRewarder"}
    assert {node.name for _, node in WRAPPERS} <= set(llmwrappers.__all__)


@every_wrapper
def test_every_constructor_argument_but_env_is_recorded(path, node):
    init = next(item for item in node.body if isinstance(item, ast.FunctionDef) and item.name == "__init__")
    assert init.args.vararg is init.args.kwarg is None
    names = [argument.arg for argument in init.args.posonlyargs + init.args.args + init.args.kwonlyargs]
    calls = {ast.unparse(call.func): call for call in ast.walk(init) if isinstance(call, ast.Call)}
    recorded = calls["RecordConstructorArgs.__init__"]
    assert names[:2] == ["self", "env"]
    keywords = {keyword.arg: ast.unparse(keyword.value) for keyword in recorded.keywords if keyword.arg != "_disable_deepcopy"}
    assert keywords == {name: name for name in names[2:]}
    assert recorded.lineno < calls["gym.Wrapper.__init__"].lineno


@every_wrapper
def test_a_file_is_its_class_in_snake_case(path, node):
    assert path.stem == re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", node.name).lower()
    assert (ROOT / "tests" / "wrappers" / f"test_{path.stem}.py").is_file()


# ------------------------------------------------------------------------------------------------------------ docstrings

PUBLIC = {name: getattr(llmwrappers, name) for name in llmwrappers.__all__}
DOCUMENTED = {name: thing for name, thing in PUBLIC.items() if inspect.isclass(thing) or inspect.isfunction(thing)}
CLASSES = {name: thing for name, thing in PUBLIC.items() if inspect.isclass(thing)}
METHODS = {
    f"{name}.{method}": thing
    for name, cls in CLASSES.items()
    for method, thing in vars(cls).items()
    if inspect.isfunction(thing) and not method.startswith("_")
}


def first_line(thing) -> str:
    assert thing.__doc__ is not None
    return inspect.cleandoc(thing.__doc__).splitlines()[0]


@pytest.mark.parametrize("name", {**DOCUMENTED, **METHODS})
def test_a_public_docstring_begins_with_one_third_person_line(name):
    lines = inspect.cleandoc({**DOCUMENTED, **METHODS}[name].__doc__ or "").splitlines()
    assert re.match(r"[A-Z]\w*s\b.*\.$", lines[0]), lines[0]
    assert len(lines) == 1 or lines[1] == ""


@pytest.mark.parametrize("name", DOCUMENTED)
def test_a_public_docstring_has_an_example(name):
    assert ">>> " in (DOCUMENTED[name].__doc__ or "")


# ----------------------------------------------------------------------------------------------------------------- specs

POLICY = "import numpy as np\n\ndef policy(obs):\n    return np.sin(7 * obs[:1])\n"


@pytest.fixture
def prior(tmp_path):
    path = tmp_path / "policy.py"
    path.write_text(POLICY)
    return str(path)


def stack(env_id, prior, **kwargs):
    env = RecordEpisodeStatistics(gym.make(env_id))
    env = LLMActionMask(env, prior, radius=0.2, mapping="clip", gate="step", **kwargs)
    return ActionBoundsObservation(EpsilonMaskSchedule(env, total_timesteps=40, mask_fraction=0.5))


@pytest.fixture
def table(tmp_path):
    """A table of every other state of a run without guidance."""
    path = tmp_path / "table.json"
    observations = np.array([observation for observation, *_ in run(gym.make("Pendulum-v1"))])
    states = observations[::2]
    rewards = np.linspace(-1, 1, len(states))
    CriticalStates(states, rewards[:, None], rewards, [0.5, 0.5, 2.0], tolerance=0.4, environment="Pendulum-v1").save(path)
    return str(path)


def guided_stack(table, shaping="paper", outermost=CriticalStateRewarder):
    env = RecordEpisodeStatistics(gym.make("Pendulum-v1"))
    if outermost is LLMActionOverride:
        return LLMActionOverride(CriticalStateRewarder(env, table, shaping=shaping, alpha=0.5), table, patience_steps=100)
    return CriticalStateRewarder(LLMActionOverride(env, table, patience_steps=100), table, shaping=shaping, alpha=0.5)


def run(env, steps=30, seed=9):
    """Returns everything a seeded run gives, but for the clock of RecordEpisodeStatistics, and with 0 for NaN, which is
    never equal."""

    def reset(**seeded):
        observation, info = env.reset(**seeded)
        return observation, {key: np.nan_to_num(value) for key, value in info.items()}

    env.action_space.seed(seed)
    tuples = [reset(seed=seed)]
    for _ in range(steps):
        tuples.append(env.step(env.action_space.sample()))
        if tuples[-1][2] or tuples[-1][3]:
            tuples[-1][4].pop("episode", None)
            tuples.append(reset())
    env.close()
    return tuples


def from_json(spec):
    return EnvSpec.from_json(spec.to_json())


@pytest.mark.parametrize("copied", [lambda spec: spec, from_json], ids=["spec", "json"])
@pytest.mark.parametrize("env_id", ["Pendulum-v1", "Hopper-v5"])
def test_a_spec_rebuilds_the_whole_stack(prior, env_id, copied):
    name = {"prior": prior} if env_id == "Pendulum-v1" else {"prior": env_id, "candidate": 2}
    env = stack(env_id, **name)
    again = gym.make(copied(env.spec))
    assert str(again) == str(env)
    assert (again.observation_space, again.action_space) == (env.observation_space, env.action_space)
    for attribute in ("radius", "mapping", "gate", "mask_epsilon", "elapsed_steps"):
        assert again.get_wrapper_attr(attribute) == env.get_wrapper_attr(attribute)
    assert data_equivalence(run(again), run(env), exact=True)


@pytest.mark.parametrize("copied", [lambda spec: spec, from_json], ids=["spec", "json"])
@pytest.mark.parametrize("outermost", [LLMActionOverride, CriticalStateRewarder])
def test_a_spec_rebuilds_a_guided_stack(table, outermost, copied):
    env = guided_stack(table, "potential", outermost)
    again = gym.make(copied(env.spec))
    assert str(again) == str(env)
    for attribute in ("alpha", "shaping", "gamma"):
        assert again.get_wrapper_attr(attribute) == env.get_wrapper_attr(attribute)
    first = run(env)
    assert data_equivalence(run(again), first, exact=True)
    assert {bool(info["critical"]) for *_, info in first} == {False, True}
    assert env.get_wrapper_attr("hit_count") == sum(info["critical"] for *_, info in first)


def test_the_same_seed_is_the_same_guided_run(table):
    first = run(guided_stack(table))
    assert data_equivalence(run(guided_stack(table)), first, exact=True)
    assert not data_equivalence(run(guided_stack(table), seed=10), first)


def test_the_same_seed_is_the_same_run(prior):
    first = run(stack("Pendulum-v1", prior))
    assert data_equivalence(run(stack("Pendulum-v1", prior)), first, exact=True)
    assert not data_equivalence(run(stack("Pendulum-v1", prior), seed=10), first)
    assert {bool(info["mask_active"]) for *_, info in first} == {True, False}


def test_wrapping_leaves_the_environments_own_random_stream_alone(prior):
    masked, plain = stack("Pendulum-v1", prior), gym.make("Pendulum-v1")
    run(masked, steps=3), run(plain, steps=3)
    assert masked.unwrapped.np_random.bit_generator.state == plain.unwrapped.np_random.bit_generator.state


def test_guidance_leaves_the_environments_own_random_stream_alone(table):
    guided, plain = guided_stack(table), gym.make("Pendulum-v1")
    run(guided, steps=3), run(plain, steps=3)
    assert guided.unwrapped.np_random.bit_generator.state == plain.unwrapped.np_random.bit_generator.state


class Told(Echo):
    """Observes what the options of the reset say."""

    def reset(self, *, seed=None, options=None):
        observation, info = super().reset(seed=seed)
        return np.full_like(observation, (options or {}).get("told", 0.0)), info


def still(observation):
    return np.zeros(2, np.float32)


@pytest.mark.parametrize(
    "wrap",
    [
        lambda env: LLMActionMask(env, still),
        lambda env: EpsilonMaskSchedule(LLMActionMask(env, still), total_timesteps=10),
        lambda env: ActionBoundsObservation(LLMActionMask(env, still)),
        lambda env: LLMActionOverride(env, lambda observation: None),
        lambda env: CriticalStateRewarder(env, lambda observation: None),
    ],
    ids=["mask", "schedule", "bounds", "override", "rewarder"],
)
def test_options_reach_the_environment(wrap):
    assert wrap(Told()).reset(seed=0, options={"told": 7.0})[0][:3].tolist() == [7.0, 7.0, 7.0]


# -------------------------------------------------------------------------------------------------------- other libraries

outside = pytest.mark.parametrize("outermost", [lambda env: env, ActionBoundsObservation], ids=["mask", "bounds"])


def box(prior):
    return LLMActionMask(gym.make("Pendulum-v1", disable_env_checker=True), prior, radius=0.2, mask_epsilon=0.7)


def discrete(prior):
    return LLMActionMask(Turns(steps=20), lambda observation: {int(20 * observation[0]) % 4, 2}, mask_epsilon=0.7)


@pytest.mark.filterwarnings("ignore:.*is different from the unwrapped version:UserWarning")
@pytest.mark.parametrize("make", [box, discrete])
@outside
def test_gymnasiums_check_env_passes(prior, make, outermost):
    check_env(outermost(make(prior)), skip_render_check=True)


@pytest.mark.parametrize("make", [box, discrete])
@outside
def test_stable_baselines3s_check_env_passes(prior, make, outermost):
    from stable_baselines3.common.env_checker import check_env as sb3_check_env

    sb3_check_env(outermost(make(prior)))


def guided_box():
    states = CriticalStates([[1.0, 0.0, 0.0]], [[0.5]], [1.0], [1.0, 1.0, 8.0], tolerance=2.0)
    return gym.make("Pendulum-v1", disable_env_checker=True), states


def guided_discrete():
    return Turns(steps=20), CriticalStates([[0.0], [0.25]], [3, 1], [1.0, -1.0], [1.0], tolerance=0.1)


@pytest.mark.filterwarnings("ignore:.*is different from the unwrapped version:UserWarning")
@pytest.mark.filterwarnings("ignore:.*symmetric and normalized:UserWarning")  # Pendulum's own space
@pytest.mark.parametrize("make", [guided_box, guided_discrete])
@pytest.mark.parametrize("wrappers", [[LLMActionOverride], [CriticalStateRewarder], [LLMActionOverride, CriticalStateRewarder]])
def test_check_env_passes_with_guidance(make, wrappers):
    from stable_baselines3.common.env_checker import check_env as sb3_check_env

    for check in (lambda env: check_env(env, skip_render_check=True), sb3_check_env):
        env, states = make()
        for wrapper in wrappers:
            env = wrapper(env, states)
        check(env)
        assert env.hit_count > 0


@pytest.mark.parametrize("env_id", ["Pendulum-v1", "CartPole-v1"])
def test_infos_have_the_same_keys_shapes_and_dtypes_at_reset_and_step(env_id):
    """Minari refuses infos that change, TorchRL what has no dtype, and a vector environment makes objects of np.bool_."""
    action = np.float32([0.5]) if env_id == "Pendulum-v1" else 1

    def make(guides, mask=True):
        env = gym.make(env_id)
        for guide in guides:
            env = guide(env, lambda obs: (action, 0.5) if obs[0] > 0 else None)
        return LLMActionMask(env, lambda obs: action) if mask else env

    override, reward = LLMActionOverride, CriticalStateRewarder
    for stack in ((), (override,), (reward,), (override, reward), (reward, override)):
        for mask in (True, False)[: 1 + bool(stack)]:
            env = make(stack, mask)
            _, first = env.reset(seed=0)
            forms = {key: (value.shape, value.dtype) for key, value in first.items()}
            for _ in range(5):
                info = env.step(env.action_space.sample())[4]
                assert {key: (value.shape, value.dtype) for key, value in info.items()} == forms
            envs = gym.vector.SyncVectorEnv([lambda stack=stack, mask=mask: make(stack, mask)] * 2)
            for infos in (envs.reset(seed=0)[1], envs.step(envs.action_space.sample())[4]):
                found = {key: (values.shape[1:], values.dtype) for key, values in infos.items() if key[0] != "_"}
                assert found == forms


class Witness(gym.Wrapper):
    """Outermost: checks every transition against the bounds published before it."""

    steps = 0
    active = 0

    def reset(self, **kwargs):
        observation, self.info = self.env.reset(**kwargs)
        return observation, self.info

    def step(self, action):
        before = self.info
        *result, self.info = self.env.step(action)
        executed = self.info["executed_action"]
        if "action_mask" in before:
            assert before["action_mask"][action], "the learner chose an action that the mask forbids"
            assert executed == action
        else:
            assert (before["action_low"] <= executed).all()
            assert (executed <= before["action_high"]).all()
            np.testing.assert_array_equal(self.action_space.low, -1)
        self.steps += 1
        self.active += before["mask_active"]
        return *result, self.info


@outside
@pytest.mark.parametrize(
    ("algorithm", "arguments"),
    [("TD3", {"learning_starts": 100, "buffer_size": 1000, "batch_size": 16}), ("PPO", {"n_steps": 100, "batch_size": 50})],
)
def test_stable_baselines3_learns_unchanged(prior, outermost, algorithm, arguments):
    import stable_baselines3

    env = Witness(outermost(box(prior)))
    learner = getattr(stable_baselines3, algorithm)
    model = learner("MlpPolicy", env, policy_kwargs={"net_arch": [8]}, seed=0, device="cpu", **arguments)
    before = [parameter.clone() for parameter in model.policy.parameters()]
    model.learn(300)
    assert env.steps == 300
    assert 150 < env.active < 270
    assert any((old != new).any() for old, new in zip(before, model.policy.parameters(), strict=True))


@outside
def test_maskable_ppo_never_violates_the_mask(outermost):
    from sb3_contrib import MaskablePPO

    env = Witness(outermost(discrete(None)))
    model = MaskablePPO("MlpPolicy", env, policy_kwargs={"net_arch": [8]}, n_steps=100, batch_size=50, seed=0, device="cpu")
    model.learn(300)
    assert env.steps == 300
    assert env.active > 150


def test_a_gymnasium_that_is_too_old_is_named(tmp_path):
    """As a package brings it whose pins are old."""
    (tmp_path / "gymnasium.py").write_text('__version__ = "0.29.1"')
    code = f"import sys; sys.path[:0] = [{str(tmp_path)!r}, {str(ROOT)!r}]; import llmwrappers"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    message = "ImportError: llmwrappers needs Gymnasium 1.2 or newer, found 0.29.1: pip install 'gymnasium>=1.2,<2'"
    assert ended.stderr.splitlines()[-1] == message
