"""What a stranger writes where a package's environment needs more than JSON: a file that registers it.

``gymnasium.make("strangers:Trading-v0")``, and ``--env-id strangers:Trading-v0`` of every command.
"""

import gymnasium as gym


def trading(**kwargs):
    """gym-trading-env needs a table of prices."""
    import gym_trading_env  # noqa: F401
    import numpy as np
    import pandas as pd

    close = 100 + np.cumsum(np.random.default_rng(0).normal(0, 0.1, 500))
    columns = ["open", "high", "low", "close"]
    prices = pd.DataFrame(dict.fromkeys(columns, close), index=pd.date_range("2026-01-01", periods=500, freq="h"))
    prices["feature_change"] = prices["close"].pct_change().fillna(0)
    return gym.make("TradingEnv", df=prices, **kwargs)


gym.register("Trading-v0", entry_point=trading)
