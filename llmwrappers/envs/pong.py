"""Pong as a few objects: PongObjects observes them, PongGrid shows two small images and tells them in ``info``."""

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.error import DependencyNotInstalled
from gymnasium.spaces import Box

Array = np.ndarray
PONG_GRID = "llmwrappers/PongGrid-v0"

# Positions are in cells of the 80x80 grid, whatever the size of the image; a cell is 2x2 pixels of the screen.
CELLS = 80
FIELD = slice(34, 194)  # the rows of the screen between the walls, which have the colour of the ball
BALL, OPPONENT, OWN = 236, 148, 147
OWN_AT_FIRST = 121  # the first image of a game has colours of its own
OPPONENT_LEFT, OWN_LEFT, PADDLE_WIDTH = 8, 70, 2  # more columns than the ball can hide
BALL_HEIGHT, PADDLE_HEIGHT = 2, 8
ABOVE = -PADDLE_HEIGHT / 2  # the centre of a paddle of which nothing shows: it waits above the field


def locate(field: Array, previous: Array | None = None) -> Array:
    """Finds the ball and the paddles of Pong in an image of its field.

    ``x`` counts from the left edge of the field and ``y`` from its upper edge, both from 0 to 80: 1 is 2 pixels of the
    screen. A position is the centre of the whole object, also where the edge of the field cuts it off. A paddle of
    which nothing shows, as the opponent's at the start of a game, is just above the field, at y = -4.

    Args:
        field: uint8, rows 34 to 193 of ALE's greyscale screen (160, 160), or every second pixel of them (80, 80), which
            places an object up to half a cell less exactly
        previous: the field one step before; without it, all velocities are 0

    Returns:
        float32 (9,): ball in play (0 or 1), ball x, ball y, ball vx, ball vy, own y, own vy, opponent y, opponent vy.
        Velocities are in cells a step. The ball's entries are 0 while none shows. The velocity of what appears is 0 at first.

    Raises:
        ValueError: an array of another shape or type

    Example:
        >>> field = np.full((80, 80), 87, np.uint8)
        >>> field[20:28, 70:72], field[30:38, 8:10], field[40:42, 35] = OWN, OPPONENT, BALL
        >>> [float(number) for number in locate(field)]
        [1.0, 35.5, 41.0, 0.0, 0.0, 24.0, 0.0, 34.0, 0.0]
        >>> [float(number) for number in locate(np.roll(field, -2, axis=0), field)]
        [1.0, 35.5, 39.0, 0.0, -2.0, 22.0, -2.0, 32.0, -2.0]
    """
    if field.shape not in ((2 * CELLS, 2 * CELLS), (CELLS, CELLS)) or field.dtype != np.uint8:
        raise ValueError(f"field must be uint8 of shape (160, 160) or (80, 80), got {field.dtype} of shape {field.shape}")
    cell = len(field) // CELLS  # its pixels along each axis
    objects = np.zeros(9, np.float32)
    if ball := _corners(field, BALL):
        top, left, bottom, right = ball
        objects[:3] = 1, (left + right + 1) / (2 * cell), _centre(top, bottom, BALL_HEIGHT, cell)
    for entry, left, colours in ((5, OWN_LEFT, (OWN, OWN_AT_FIRST)), (7, OPPONENT_LEFT, (OPPONENT,))):
        columns = field[:, left * cell : (left + PADDLE_WIDTH) * cell]
        shown = next((corners for colour in colours if (corners := _corners(columns, colour))), None)
        objects[entry] = _centre(shown[0], shown[2], PADDLE_HEIGHT, cell) if shown else ABOVE
    if previous is not None:
        before = locate(previous)
        objects[3:5] = (objects[1:3] - before[1:3]) * (objects[0] * before[0])
        objects[6:9:2] = (objects[5:8:2] - before[5:8:2]) * (before[5:8:2] > ABOVE)
    return objects


def _corners(pixels: Array, colour: int) -> tuple[int, int, int, int] | None:
    """The row and the column of the first pixel of a colour, and those of the last; None without any."""
    # An image holds few pixels of it: the search in bytes takes a tenth of the time of a comparison of arrays.
    data = pixels.tobytes()
    if (first := data.find(colour)) < 0:
        return None
    return *divmod(first, pixels.shape[1]), *divmod(data.rfind(colour), pixels.shape[1])


def _centre(first: int, last: int, height: float, cell: int) -> float:
    """The centre, in cells, of what shows in rows first to last: at the edge of the field, part of it does not show."""
    if first == 0:
        return (last + 1) / cell - height / 2
    if last == CELLS * cell - 1:
        return first / cell + height / 2
    return (first + last + 1) / (2 * cell)


class PongObjects(gym.Env):
    """Plays Pong on the positions and velocities of the ball and the paddles, in place of pixels.

    It is ``ALE/Pong-v5`` but for the observation: the right paddle is yours, +1 for a point, -1 for one lost, the first to
    have 21 wins, and a step is 4 frames. The observation is a float32 array (9,):

    =====  ======================  ============  =======================================================================
    entry  meaning                 unit          range
    =====  ======================  ============  =======================================================================
    0      ball in play            1             0 or 1
    1, 2   ball x, ball y          cells         0 to 80; at the walls y is up to 1 beyond
    3, 4   ball vx, ball vy        cells / step  mostly 2 or 4 in size, at most 6; vx > 0 towards your paddle
    5, 6   own y, own vy           cells, / step y from -1 to 82: the walls hide up to 5 of the 8 cells of your paddle
    7, 8   opponent y, its vy      cells, / step y from -4, the whole paddle hidden, to 84
    =====  ======================  ============  =======================================================================

    A cell is 2 pixels of the screen. ``x`` counts from the left edge of the field, ``y`` from its upper edge, both to 80.
    Positions are those of centres, velocities the differences to the step before. The opponent's paddle is at x = 9, yours at
    x = 71. While no ball shows, its entries are 0: after a point for about 15 steps, and behind the upper wall at times for
    one step. The velocity of what appears is 0 in its first step.

    Args:
        render_mode: as for ``ALE/Pong-v5``

    Raises:
        gymnasium.error.DependencyNotInstalled: without ale-py

    Example:
        >>> env = gym.make("llmwrappers/PongObjects-v0")
        >>> observation, info = env.reset(seed=0)
        >>> observation.shape, float(observation[0]), env.action_space
        ((9,), 0.0, Discrete(6))

    Change log:
        * v0.1.0 - added
    """

    metadata = {"render_modes": ["human", "rgb_array"], "render_fps": 30}  # noqa: RUF012

    def __init__(self, render_mode: str | None = None):
        try:
            import ale_py
        except ImportError as error:
            raise DependencyNotInstalled("Pong needs ale-py: pip install ale-py") from error
        gym.register_envs(ale_py)
        self._env = gym.make("ALE/Pong-v5", obs_type="ram", render_mode=render_mode)
        self.render_mode = render_mode
        self.action_space = self._env.action_space
        y, a_step = (ABOVE, CELLS - ABOVE), (2 * ABOVE - CELLS, CELLS - 2 * ABOVE)
        low, high = zip((0, 1), (0, CELLS), y, a_step, a_step, y, a_step, y, a_step, strict=True)
        self.observation_space = Box(np.array(low, np.float32), np.array(high, np.float32))

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        """Starts a game."""
        super().reset(seed=seed)
        info = self._env.reset(seed=seed, options=options)[1]
        self._field = self._screen()
        return locate(self._field), info

    def step(self, action: int) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        """Plays 4 frames."""
        _, reward, terminated, truncated, info = self._env.step(action)
        self._previous, self._field = self._field, self._screen()
        return locate(self._field, self._previous), float(reward), terminated, truncated, info

    def render(self):
        """Renders the screen as ``ALE/Pong-v5`` does."""
        return self._env.render()

    def close(self):
        """Closes the game."""
        self._env.close()

    def _screen(self) -> Array:
        return self._env.unwrapped.ale.getScreenGrayscale()[FIELD]  # type: ignore[attr-defined]


class PongGrid(PongObjects):
    """Plays Pong on two small images of the field and tells the positions of its objects in ``info``.

    The observation, uint8 (2, 80, 80), is the greyscale field one step before and now, every second pixel of it; after a
    reset both are the same. ``info["objects"]``, float32 (9,), is what :class:`PongObjects` observes at the same time. Else it
    is ``ALE/Pong-v5``.

    Args:
        render_mode: as for ``ALE/Pong-v5``

    Raises:
        gymnasium.error.DependencyNotInstalled: without ale-py

    Example:
        >>> env = gym.make("llmwrappers/PongGrid-v0")
        >>> observation, info = env.reset(seed=0)
        >>> observation.shape, info["objects"].shape
        ((2, 80, 80), (9,))

    Change log:
        * v0.1.0 - added
    """

    def __init__(self, render_mode: str | None = None):
        super().__init__(render_mode)
        self.observation_space = Box(0, 255, (2, CELLS, CELLS), np.uint8)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        """Starts a game."""
        objects, info = super().reset(seed=seed, options=options)
        self._previous = self._field
        return self._grids(), {**info, "objects": objects}

    def step(self, action: int) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        """Plays 4 frames."""
        objects, reward, terminated, truncated, info = super().step(action)
        return self._grids(), reward, terminated, truncated, {**info, "objects": objects}

    def _grids(self) -> Array:
        return np.stack([self._previous[::2, ::2], self._field[::2, ::2]])
