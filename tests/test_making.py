"""Making an environment: what cannot be made is said in a sentence."""

import sys

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, Text, Tuple
from gymnasium.wrappers import FilterObservation

from llmwrappers.making import image_refusal, made_with, make, make_rendering, without_text
from local_llm.prompting.render import render_prompt


def broken():
    raise RuntimeError("no simulator")


gym.register("llmwrappers-tests/Broken-v0", entry_point=broken)


def test_an_environment_that_cannot_be_made_is_an_error_of_gymnasium():
    with pytest.raises(gym.error.Error, match=r"Broken-v0 cannot be made: RuntimeError: no simulator"):
        make("llmwrappers-tests/Broken-v0")


def test_an_environment_that_cannot_be_rendered_is_an_error_of_gymnasium(monkeypatch):
    monkeypatch.setitem(sys.modules, "pygame", None)
    with pytest.raises(gym.error.Error, match=r"^Pendulum-v1 cannot be rendered: .*pygame is not installed, run .pip install"):
        make_rendering("Pendulum-v1")


def test_an_unknown_id_hints_at_the_package():
    with pytest.raises(gym.error.UnregisteredEnv, match=r"no environment is called Nowhere-v0; .* module:Nowhere-v0$"):
        make("Nowhere-v0")


def test_what_a_new_mujoco_breaks_names_the_version_that_runs_it(monkeypatch):
    def broken():
        raise AttributeError("'mujoco._structs.MjModel' object has no attribute 'geom_bvhadr'")

    gym.register("llmwrappers-tests/OfMujoco-v0", entry_point=broken)
    monkeypatch.setitem(sys.modules, "mujoco", object())
    for version in ("4.0.0", "3.17.0"):
        monkeypatch.setattr("importlib.metadata.version", lambda name, version=version: version)
        with pytest.raises(gym.error.Error, match=rf"has no attribute.*MuJoCo {version} breaks.*pip install 'mujoco<3.9'"):
            make("llmwrappers-tests/OfMujoco-v0")
    monkeypatch.setattr("importlib.metadata.version", lambda name: "3.8.1")
    with pytest.raises(gym.error.Error) as error:
        make("llmwrappers-tests/OfMujoco-v0")
    assert "pip" not in str(error.value)


def test_what_is_for_an_older_numpy_names_the_version_that_runs_it():
    gym.register("llmwrappers-tests/OfNumpy-v0", entry_point=lambda: np.float_)  # noqa: NPY201
    with pytest.raises(gym.error.Error, match=r"`np.float_` was removed in the NumPy 2.0 release.*pip install 'numpy<2'"):
        make("llmwrappers-tests/OfNumpy-v0")


def test_an_argument_that_is_missing_names_the_two_ways_to_give_it():
    gym.register("llmwrappers-tests/OfPrices-v0", entry_point=lambda prices: None)
    with pytest.raises(TypeError, match=r"missing 1 required positional argument: 'prices'.*--env-kwargs.*that passes it"):
        make("llmwrappers-tests/OfPrices-v0")
    with pytest.raises(TypeError) as error:
        make("CartPole-v1", prices=3)
    assert "--env-kwargs" not in str(error.value)


def test_one_that_observes_by_rendering_names_how_mujoco_renders(monkeypatch):
    def broken():
        raise RuntimeError("an OpenGL platform library has not been loaded into this process")

    gym.register("llmwrappers-tests/OfPixels-v0", entry_point=broken)
    monkeypatch.setitem(sys.modules, "mujoco", object())
    with pytest.raises(gym.error.Error, match=r"OpenGL.*without a display set MUJOCO_GL=egl"):
        make("llmwrappers-tests/OfPixels-v0")


class TestAModuleThatIsToRegister:
    @pytest.fixture(autouse=True)
    def _here(self, tmp_path, monkeypatch):
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.delenv("DISPLAY", raising=False)
        monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
        self.folder = tmp_path

    def test_whatever_its_import_raises_is_said(self, monkeypatch):
        raising = "class NoSuchDisplay(Exception): pass\nraise NoSuchDisplay(':0')"
        (self.folder / "of_a_window.py").write_text(raising)
        monkeypatch.delitem(sys.modules, "mujoco", raising=False)
        with pytest.raises(gym.error.UnregisteredEnv, match="cannot import .*: NoSuchDisplay: :0 .*xvfb-run -a"):
            make("of_a_window:Window-v0")

    def test_one_that_registers_nothing_points_at_what_may(self):
        (self.folder / "robots" / "gym_envs").mkdir(parents=True)
        for path in ("robots/__init__.py", "robots/plans.py", "robots/gym_envs/__init__.py", "silent.py"):
            (self.folder / path).touch()
        with pytest.raises(gym.error.UnregisteredEnv) as error:
            make("robots:Arm-v0")
        assert str(error.value) == (
            "no environment is called Arm-v0; importing robots registers nothing: name the module in it that does "
            "(robots.gym_envs:Arm-v0), or write a file that registers it, and name that file's module"
        )
        with pytest.raises(gym.error.UnregisteredEnv, match="importing silent registers nothing: write a file that"):
            make("silent:Arm-v0")

    def test_whoever_else_registers_what_is_of_no_module(self, monkeypatch):
        made = eval("lambda: None", {})  # its __module__ is None
        monkeypatch.setitem(gym.registry, "Anyone-v0", gym.envs.registration.EnvSpec("Anyone-v0", entry_point=made))
        (self.folder / "quiet.py").touch()
        with pytest.raises(gym.error.UnregisteredEnv, match="importing quiet registers nothing"):
            make("quiet:Arm-v0")

    def test_a_file_in_the_current_folder_is_one(self, monkeypatch, tmp_path):
        monkeypatch.setattr(sys, "path", [path for path in sys.path if path not in ("", str(tmp_path))])
        monkeypatch.chdir(tmp_path)
        (tmp_path / "beside_me.py").write_text(
            "import gymnasium\ngymnasium.register('Beside-v0', 'gymnasium.envs.classic_control:PendulumEnv')"
        )
        assert make("beside_me:Beside-v0").action_space.shape == (1,)

    def test_one_that_registers_others_names_them(self):
        (self.folder / "arms.py").write_text("import gymnasium\ngymnasium.register('ArmInsertion-v0', entry_point='arms:make')")
        with pytest.raises(
            gym.error.UnregisteredEnv, match="no environment is called PegInTheHole-v0; arms registers ArmInsertion-v0$"
        ):
            make("arms:PegInTheHole-v0")


class Told(gym.Env):
    """An environment that says in words what is to be done, as MiniGrid's do."""

    observation_space = Dict(mission=Text(9), place=Box(0, 1, (2,)), room=Discrete(3))
    action_space = Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.observation_space.sample(), {}


class TestWithoutText:
    def test_text_is_left_out_and_named(self):
        with pytest.warns(UserWarning, match="text is left out of the observation: mission$"):
            env = without_text(Told())
        assert list(env.observation_space) == ["place", "room"]
        assert sorted(env.reset()[0]) == ["place", "room"]

    def test_make_leaves_it_out(self):
        gym.register("llmwrappers-tests/Told-v0", entry_point=Told)
        with pytest.warns(UserWarning, match="mission"):
            assert sorted(make("llmwrappers-tests/Told-v0").reset(seed=0)[0]) == ["place", "room"]

    def test_where_there_is_nothing_to_leave_out_or_nothing_else_the_environment_is_as_it_was(self):
        numbers = FilterObservation(Told(), ["place"])
        assert without_text(numbers) is numbers
        words = FilterObservation(Told(), ["mission"])
        assert without_text(words) is words


def test_images_are_told_from_boards_and_named():
    camera, board = Box(0, 255, (240, 320, 3), np.uint8), Box(0, 9, (5, 5, 3), np.uint8)
    assert image_refusal(Dict(board=board, place=Discrete(3))) == ""
    assert image_refusal(Box(0, 255, (4, 80, 80), np.uint8)) == ""
    assert "images must be uint8 of shape (channels, 80, 80), got Box" in image_refusal(Box(0, 1, (2, 80, 80)))
    assert "the image 'camera' in the observation would be 230400 numbers" in image_refusal(Dict(camera=camera, board=board))
    assert "the image 1 in the observation would be" in image_refusal(Tuple((board, camera)))
    assert "the image 'eyes' in the observation would be" in image_refusal(Dict(eyes=Dict(left=camera), board=board))


@pytest.mark.parametrize("make", [make, make_rendering, render_prompt])
def test_an_environment_may_have_an_argument_called_env_id(make):
    def inner(env_id, **others):
        return gym.make(env_id, **others)

    env_id = f"llmwrappers-tests/Inner{make.__name__}-v0"
    gym.register(env_id, entry_point=inner)
    made = make(env_id, env_id="Pendulum-v1")
    assert "clipped to [-2, 2]" in made if isinstance(made, str) else made.action_space == Box(-2, 2, (1,))


def test_an_argument_that_is_an_array():
    gym.register("llmwrappers-tests/Goal-v0", entry_point=lambda goal: gym.make("Pendulum-v1"), kwargs={"goal": np.zeros(2)})
    assert made_with(gym.make("llmwrappers-tests/Goal-v0")) == {}
    assert made_with(gym.make("llmwrappers-tests/Goal-v0", goal=np.ones(2)))["goal"].tolist() == [1.0, 1.0]
