"""NamedGrid: MiniGrid's grids as a few numbers with names, in the frame of the agent."""

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.error import DependencyNotInstalled
from gymnasium.spaces import Box
from gymnasium.utils import RecordConstructorArgs

KINDS = ("free", "wall", "closed door", "locked door", "open door", "key", "ball", "box", "goal", "lava")
CARRIED = ("nothing", "key", "ball", "box")
COLOURS = ("none", "red", "green", "blue", "purple", "yellow", "grey")
COLOURED = ("locked door", "key")  # which key opens which door
SLOTS = {"key": 2, "locked door": 2, "closed door": 2, "open door": 1, "ball": 1, "box": 2, "goal": 1}
AGENT = ("x", "y", "heading x", "heading y", "carried kind", "carried colour", "kind ahead")
FREE = ("free cells ahead", "free cells to the right", "free cells behind", "free cells to the left")


class NamedGrid(gym.ObservationWrapper, RecordConstructorArgs):
    """Observes a MiniGrid as named numbers: the agent, what it carries and faces, and where everything else lies from it.

    The whole grid is known, walls only as far as the agent could walk in a straight line. The observation is a float32 vector
    of whole numbers, whose names are in ``names``::

        x, y                         column and row of the agent's cell; y grows downwards
        heading x, heading y         (1, 0) right, (0, 1) down, (-1, 0) left, (0, -1) up
        carried kind, colour         an index of CARRIED and of COLOURS
        kind ahead                   what is in the cell that it faces, an index of KINDS
        free cells ahead, ...        how many cells it could walk in each direction; open doors and goals are free
        KIND i there                 1 if there is an i-th object of a kind, 0 if not (then what follows is 0, too)
        KIND i ahead, to the right   how far it lies in the direction that the agent faces, and to the right of that; cells
        KIND i colour                of locked doors and keys: a key opens the doors of its colour

    Objects of a kind are in the order of the steps to them; those that closed doors or objects cut off come last.

    Args:
        env: an environment of the package minigrid
        slots: how many objects of each kind of SLOTS are observed; none of a kind that is left out or 0

    Raises:
        TypeError: an environment that is no MiniGrid
        ValueError: a kind that is not in SLOTS, or a number below 0

    Example:
        >>> env = gym.make("llmwrappers/KeyCorridor-v0")
        >>> observation, info = env.reset(seed=0)
        >>> dict(zip(env.get_wrapper_attr("names"), observation.astype(int).tolist()))["locked door 1 there"]
        1

    Change log:
        * v0.1.0 - added
    """

    def __init__(self, env: gym.Env, slots: Mapping[str, int] = SLOTS):
        if not all(hasattr(env.unwrapped, name) for name in ("grid", "agent_pos", "agent_dir", "carrying")):
            raise TypeError(f"NamedGrid serves environments of the package minigrid, got {env}")
        if unknown := set(slots) - set(SLOTS):
            raise ValueError(f"slots must be of the kinds {', '.join(SLOTS)}; got {', '.join(sorted(unknown))}")
        if any(isinstance(count, bool) or not isinstance(count, int) or count < 0 for count in slots.values()):
            raise ValueError(f"slots must hold whole numbers of at least 0, got {dict(slots)}")
        RecordConstructorArgs.__init__(self, slots=dict(slots))
        gym.ObservationWrapper.__init__(self, env)
        self.slots = dict(slots)
        self.names = [*AGENT, *FREE]
        base: Any = env.unwrapped
        size = max(base.width, base.height)
        low, high = [0, 0, -1, -1, 0, 0, 0, 0, 0, 0, 0], [size, size, 1, 1, len(CARRIED), len(COLOURS), len(KINDS), *[size] * 4]
        for kind, count in self.slots.items():
            for i in range(1, count + 1):
                self.names += [f"{kind} {i} there", f"{kind} {i} ahead", f"{kind} {i} to the right"]
                low, high = [*low, 0, -size, -size], [*high, 1, size, size]
                if kind in COLOURED:
                    self.names.append(f"{kind} {i} colour")
                    low, high = [*low, 0], [*high, len(COLOURS)]
        self.observation_space = Box(np.array(low, np.float32), np.array(high, np.float32))

    def observation(self, observation: Any) -> np.ndarray:
        """The grid as it is now, in numbers."""
        base: Any = self.env.unwrapped
        x, y = (int(number) for number in base.agent_pos)
        dx, dy = (int(number) for number in base.dir_vec)
        carried = base.carrying
        numbers = [x, y, dx, dy]
        numbers += [CARRIED.index(carried.type), COLOURS.index(carried.color)] if carried else [0, 0]
        numbers.append(KINDS.index(_kind(base.grid, x + dx, y + dy)))
        numbers += [_free_cells(base.grid, x, y, *way) for way in ((dx, dy), (-dy, dx), (-dx, -dy), (dy, -dx))]
        found: dict[str, list[Any]] = {kind: [] for kind in self.slots}
        for kind, column, row, colour in _by_distance(base.grid, x, y):
            if kind in found:
                found[kind].append((column - x, row - y, colour))
        for kind, count in self.slots.items():
            width = 4 if kind in COLOURED else 3
            for east, south, colour in found[kind][:count]:
                numbers += [1, east * dx + south * dy, south * dx - east * dy, COLOURS.index(colour)][:width]
            numbers += [0] * width * (count - len(found[kind][:count]))
        return np.array(numbers, np.float32)


def _kind(grid: Any, x: int, y: int) -> str:
    thing = grid.get(x, y)
    if thing is None:
        return "free"
    if thing.type == "door":
        return "open door" if thing.is_open else "locked door" if thing.is_locked else "closed door"
    return thing.type if thing.type in KINDS else "free"  # a floor that is painted, say


def _is_free(grid: Any, x: int, y: int) -> bool:
    return 0 <= x < grid.width and 0 <= y < grid.height and _kind(grid, x, y) in ("free", "open door", "goal")


def _free_cells(grid: Any, x: int, y: int, dx: int, dy: int) -> int:
    count = 0
    while _is_free(grid, x + (count + 1) * dx, y + (count + 1) * dy):
        count += 1
    return count


def _by_distance(grid: Any, x: int, y: int) -> Iterator[tuple[str, int, int, str]]:
    """Kind, column, row and colour of every object, in the order of the steps that lead beside it."""
    steps, queue = {(x, y): 0}, deque([(x, y)])
    while queue:
        cell = queue.popleft()
        for dx, dy in ((1, 0), (0, 1), (-1, 0), (0, -1)):
            beside = cell[0] + dx, cell[1] + dy
            if beside not in steps:
                steps[beside] = steps[cell] + 1
                if _is_free(grid, *beside):
                    queue.append(beside)
    objects = []
    for index, thing in enumerate(grid.grid):
        if thing is not None and thing.type != "wall":
            row, column = divmod(index, grid.width)
            far = steps.get((column, row), 1000 + abs(column - x) + abs(row - y))
            objects.append((far, row, column, _kind(grid, column, row), thing.color))
    for _, row, column, kind, colour in sorted(objects):
        yield kind, column, row, colour


def make_grid(env_id: str, slots: Mapping[str, int], render_mode: str | None = None) -> gym.Env:
    """Makes a MiniGrid that is observed as named numbers: the entry point of the ids that are registered.

    Raises:
        gymnasium.error.DependencyNotInstalled: without minigrid
    """
    try:
        import minigrid  # noqa: F401  registers its environments
    except ImportError as error:
        raise DependencyNotInstalled('grids need minigrid: pip install "minigrid"') from error
    # What checks and orders calls is wrapped around the whole.
    base: Any = gym.make(env_id, render_mode=render_mode, highlight=False, disable_env_checker=True).unwrapped
    base.gen_obs = dict  # nobody observes the agent's view, and to make it takes most of a step's time
    return NamedGrid(base, slots)
