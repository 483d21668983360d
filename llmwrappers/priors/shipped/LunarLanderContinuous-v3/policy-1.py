import numpy as np
import math


def policy(obs):
    x = float(obs[0])
    y = float(obs[1])
    vx = float(obs[2])
    vy = float(obs[3])
    angle = float(obs[4])
    omega = float(obs[5])
    leg_a = float(obs[6]) > 0.5
    leg_b = float(obs[7]) > 0.5

    if leg_a or leg_b:
        # On the ground: side engines off, main engine only against a fast fall.
        main = -10.0 * vy - 1.0
        if abs(angle) > 1.2:
            main = -1.0
        side = 0.0
    else:
        # Attitude: lean towards the pad and against the sideways velocity.
        limit = min(0.4, 0.12 + max(y, 0.0))
        angle_t = 0.6 * x + 1.0 * vx
        angle_t = max(-limit, min(limit, angle_t))
        todo = 0.8 * (angle_t - angle) - 1.0 * omega   # positive: turn counterclockwise
        side = -15.0 * todo

        # Descent: slower when lower, stay higher while off to the side.
        vy_t = -(0.08 + 0.8 * (y - 0.5 * abs(x)))
        vy_t = max(-0.95, min(0.1, vy_t))
        if abs(x) < 0.12:
            vy_t = min(vy_t, -0.05)
        main = 10.0 * (vy_t - vy)
        if abs(angle) > 1.2:
            main = -1.0

    action = np.array([main, side], dtype=np.float32)
    return np.clip(action, -1.0, 1.0)
