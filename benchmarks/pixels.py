"""A pixel environment for a prior that reads the simulator: InvertedPendulum-v4, of which the agent sees what is rendered.

    MUJOCO_GL=egl python benchmarks/pixels.py     # plays each of the shipped candidates alone; egl where there is no display
    MUJOCO_GL=egl PYTHONPATH=benchmarks python cleanrl_scripts/td3_camel.py --env-id pixels:InvertedPendulumPixels-v0 \\
        --prior InvertedPendulum-v4 --candidate 2 --prior-input simulator --prior-of-another-env

An observation, float32 (3, 9, 32) in [0, 1], is the last three frames, in grey, of the part of the image where cart and pole
can be. Physics, actions, rewards and the limit of 1000 steps are those of InvertedPendulum-v4.
"""

import time
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.envs.mujoco.inverted_pendulum_v4 import InvertedPendulumEnv
from gymnasium.spaces import Box
from gymnasium.wrappers import AddRenderObservation, FrameStackObservation, GrayscaleObservation, TransformObservation

from llmwrappers import LLMActionMask

WIDTH, HEIGHT = 96, 64  # in pixels: the length of the rail, and a little more
ROWS = slice(9, 36)  # from the tip of the upright pole to the lower edge of the cart
BLOCK = 3  # so many pixels, along each axis, are averaged to one
FRAMES = 3
SHAPE = ((ROWS.stop - ROWS.start) // BLOCK, WIDTH // BLOCK)


def shrink(image: np.ndarray) -> np.ndarray:
    """Crops a grey image to cart and pole, and averages blocks of it, uint8 (64, 96) -> float32 (9, 32) in [0, 1]."""
    blocks = image[ROWS].reshape(SHAPE[0], BLOCK, SHAPE[1], BLOCK)
    return (blocks.mean(axis=(1, 3)) / 255).astype(np.float32)


class Pendulum(InvertedPendulumEnv):
    """InvertedPendulum-v4 whose images depend on its state alone, not on other environments nor on what was rendered first."""

    def __init__(self, **kwargs: Any):
        super().__init__(width=WIDTH, height=HEIGHT, **kwargs)
        # Else the camera is aimed at where the pendulum is in the first image, at random.
        self.mujoco_renderer.default_cam_config = {"distance": 2.04, "lookat": np.zeros(3)}

    def render(self):
        if self.mujoco_renderer.viewer is not None:
            # Else it renders with the context that was made last, perhaps that of another environment.
            self.mujoco_renderer.viewer.make_context_current()
        return super().render()

    def close(self):
        if self.mujoco_renderer.viewer is not None:
            # Else the garbage collector frees it by its numbers in whichever context is current then: an environment that is
            # still in use sees black.
            self.mujoco_renderer.viewer.make_context_current()
            self.mujoco_renderer.viewer.con.free()
        super().close()


def inverted_pendulum_pixels(**kwargs: Any) -> gym.Env:
    """InvertedPendulum-v4 with small images of it as observations."""
    env = AddRenderObservation(Pendulum(**kwargs))
    env = TransformObservation(GrayscaleObservation(env), shrink, Box(0.0, 1.0, SHAPE, np.float32))
    return FrameStackObservation(env, FRAMES)


gym.register(
    "InvertedPendulumPixels-v0",
    entry_point=inverted_pendulum_pixels,
    max_episode_steps=1000,
    kwargs={"render_mode": "rgb_array"},
)


def main() -> None:
    """Plays one episode of each candidate alone, through the mask of an agent that sees pixels only."""
    for candidate in range(1, 6):
        env = gym.make("InvertedPendulumPixels-v0", disable_env_checker=True)
        env = LLMActionMask(
            env,
            "InvertedPendulum-v4",
            radius=1e-6,
            candidate=candidate,
            prior_of_another_env=True,
            prior_input="simulator",
        )
        env.reset(seed=0)
        centre, episodic_return, steps, done = np.zeros(1, np.float32), 0.0, 0, False
        start = time.perf_counter()
        while not done:
            _, reward, terminated, truncated, info = env.step(centre)
            episodic_return, steps, done = episodic_return + float(reward), steps + 1, terminated or truncated
        speed = steps / (time.perf_counter() - start)
        print(f"candidate {candidate}: return {episodic_return:g}, {info['prior_faults']} faults, {speed:.0f} steps/s")
        env.close()


if __name__ == "__main__":
    main()
