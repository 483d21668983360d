import numpy as np
import math


def policy(obs):
    x = float(obs[0])
    y = float(obs[1])
    vx = float(obs[2])
    vy = float(obs[3])
    angle = float(obs[4])
    omega = float(obs[5])
    right_leg = float(obs[6]) > 0.5
    left_leg = float(obs[7]) > 0.5

    if right_leg or left_leg:
        # On the ground: engines off, only cushion a remaining fall.
        main = -1.0
        if vy < -0.1:
            main = min(1.0, 0.1 + 6.0 * (-0.1 - vy))
        side = 0.0
        if (not (right_leg and left_leg)) and abs(angle) > 0.25:
            # Standing on one leg with a large tilt: turn toward upright.
            turn = -0.8 * angle - 1.0 * omega
            side = -20.0 * turn
        if abs(angle) > 1.0:
            main = -1.0
        return np.clip(np.array([main, side], dtype=np.float32), -1.0, 1.0)

    # Lateral loop: lean against the offset and the drift.
    height = max(y, 0.0)
    limit = min(0.4, 0.1 + 0.6 * height)
    angle_target = 0.6 * x + 1.0 * vx
    angle_target = max(-limit, min(limit, angle_target))

    # Attitude loop: positive turn = counterclockwise = negative side action.
    turn = 0.8 * (angle_target - angle) - 1.0 * omega
    side = -20.0 * turn

    # Vertical loop: slower when lower, stay higher when away from the pad.
    offset = max(abs(x) - 0.05, 0.0)
    vy_target = -0.08 - 0.8 * (y - 0.5 * offset)
    vy_target = max(-0.8, min(0.1, vy_target))
    main = 0.1 + 6.0 * (vy_target - vy)
    if abs(angle) > 1.0:
        main = -1.0

    return np.clip(np.array([main, side], dtype=np.float32), -1.0, 1.0)
