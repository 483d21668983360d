import numpy as np
import math


def policy(obs):
    x = float(obs[0])
    y = float(obs[1])
    vx = float(obs[2])
    vy = float(obs[3])
    angle = float(obs[4])
    w = float(obs[5])
    leg_a = float(obs[6]) > 0.5
    leg_b = float(obs[7]) > 0.5

    if leg_a and leg_b:
        # standing: engines off
        main = -1.0
        side = 0.0
    elif leg_a or leg_b:
        # one leg down: brake a fast fall, turn gently upright
        main = 10.0 * (-0.15 - vy)
        if main <= 0.0:
            main = -1.0
        side = 5.0 * angle + 6.0 * w
    else:
        # angle that brings the lander over the pad
        limit = min(0.4, 0.1 + 0.8 * max(y, 0.0))
        target = 0.7 * x + 1.05 * vx
        target = max(-limit, min(limit, target))
        side = 10.0 * (angle - target) + 12.5 * w

        # falling speed allowed at this effective height
        h = y - 0.5 * max(0.0, abs(x) - 0.05) - 0.2 * max(0.0, abs(vx) - 0.05)
        v_des = -(0.1 + 0.7 * h)
        v_des = max(-0.75, min(0.15, v_des))
        main = 0.14 + 9.0 * (v_des - vy)

    action = np.array([main, side], dtype=np.float32)
    return np.clip(action, -1.0, 1.0)
