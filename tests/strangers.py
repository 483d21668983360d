"""What a stranger writes where importing a package registers no environment, or none that can be made without more.

``gymnasium.make("strangers:Descent-v0")``, and ``--env-id strangers:Descent-v0`` of every command.
"""

import gymnasium as gym


def descent(**kwargs):
    """bluesky-gym registers when it is told to."""
    import bluesky_gym

    bluesky_gym.register_envs()
    return gym.make("DescentEnv-v0", **kwargs)


def trading(**kwargs):
    """gym-trading-env needs a table of prices, which is no JSON."""
    import gym_trading_env  # noqa: F401
    import numpy as np
    import pandas as pd

    close = 100 + np.cumsum(np.random.default_rng(0).normal(0, 0.1, 500))
    columns = ["open", "high", "low", "close"]
    prices = pd.DataFrame(dict.fromkeys(columns, close), index=pd.date_range("2026-01-01", periods=500, freq="h"))
    prices["feature_change"] = prices["close"].pct_change().fillna(0)
    return gym.make("TradingEnv", df=prices, **kwargs)


def glucose(**kwargs):
    """simglucose registers with Gym, the predecessor of Gymnasium."""
    from simglucose.envs import T1DSimGymnaisumEnv

    return T1DSimGymnaisumEnv(patient_name="adult#001", **kwargs)


def power_grid(**kwargs):
    """grid2op has environments of its own kind, and spaces that one chooses from."""
    import grid2op
    from grid2op.gym_compat import BoxGymObsSpace, DiscreteActSpace, GymEnv

    own = grid2op.make("l2rpn_case14_sandbox", test=True)
    env = GymEnv(own)
    env.observation_space = BoxGymObsSpace(own.observation_space, attr_to_keep=["rho"])
    env.action_space = DiscreteActSpace(own.action_space, attr_to_keep=["set_line_status_simple"])
    return env


gym.register("Descent-v0", entry_point=descent)
gym.register("Trading-v0", entry_point=trading)
gym.register("Glucose-v0", entry_point=glucose, max_episode_steps=480)
gym.register("PowerGrid-v0", entry_point=power_grid)
