import numpy as np
import math


def policy(obs):
    c = float(obs[0])
    s = float(obs[1])
    omega = float(obs[2])

    # angle: 0 upright, +-pi hanging
    theta = math.atan2(s, c)

    # velocity centred on the same instant as theta (half a step of gravity)
    w = omega + 0.375 * s

    # distance (in velocity) from the orbit that glides to rest upright
    z = w + 2.0 * math.sqrt(15.0) * math.sin(0.5 * theta)

    if abs(z) < 1.6:
        # catch and balance: drive z to zero, then glide in with no torque
        u = -3.0 * z
    else:
        # pump the energy to that of upright at rest (15)
        energy = 0.5 * w * w + 15.0 * c
        direction = 1.0 if w >= 0.0 else -1.0
        u = direction * min(2.0, max(-2.0, 15.0 - energy))

    u = min(2.0, max(-2.0, u))
    return np.array([u], dtype=np.float32)
