import numpy as np
import math


def policy(obs):
    c = float(obs[0])
    s = float(obs[1])
    w = float(obs[2])
    theta = math.atan2(s, c)

    # half-step velocity: accounts for the 0.05 s semi-implicit update
    w_half = w + 0.375 * s

    # energy relative to upright at rest (hanging at rest: -30)
    energy = 0.5 * w_half * w_half + 15.0 * (c - 1.0)

    # distance from the torque-free path that comes to rest upright
    sigma = w_half + 2.0 * math.sqrt(15.0) * math.sin(0.5 * theta)

    if abs(theta) < 1.0 and abs(sigma) < 1.55:
        # balance / catch
        u = -3.5 * sigma
    else:
        # pump energy up to the target, brake above it
        w_next = w + 0.75 * s
        direction = 1.0 if w_next >= 0.0 else -1.0
        gain = 1.5 * (0.2 - energy)
        gain = max(-2.0, min(2.0, gain))
        u = gain * direction

    u = max(-2.0, min(2.0, u))
    return np.array([u], dtype=np.float32)
