import numpy as np
import math


def policy(obs):
    # physical units
    x = 10.0 * float(obs[0])
    h = 6.667 * float(obs[1])
    vx = 5.0 * float(obs[2])
    vy = 7.5 * float(obs[3])
    th = float(obs[4])
    w = 2.5 * float(obs[5])
    leg_a = float(obs[6]) > 0.5
    leg_b = float(obs[7]) > 0.5

    # both legs down: engines off
    if leg_a and leg_b:
        return np.array([-1.0, 0.0], dtype=np.float32)

    # one leg down: let it settle, brake only a fast fall, level a clear tilt
    if leg_a or leg_b:
        main = -1.0 + 2.0 * (-0.5 - vy)
        side = 0.0
        if abs(th) > 0.1:
            side = 4.0 * (th + w)
        return np.clip(np.array([main, side], dtype=np.float32), -1.0, 1.0)

    # horizontal: wanted speed towards the pad, then the angle that gives it
    fade = min(1.0, max(0.2, h / 1.0))
    vx_des = -max(-2.0, min(2.0, 0.4 * x)) * fade
    th_target = 0.18 * (vx - vx_des)
    th_limit = max(0.06, min(0.4, 0.06 + 0.15 * h))
    th_target = max(-th_limit, min(th_limit, th_target))

    # attitude: wanted angular rate, side engines (negative = counterclockwise)
    w_des = max(-1.0, min(1.0, 2.5 * (th_target - th)))
    side = -6.0 * (w_des - w)

    # vertical: wanted falling speed from the usable height
    reserve = (0.3 * max(abs(x) - 0.8, 0.0)
               + 0.3 * max(abs(vx) - 0.5, 0.0)
               + 1.0 * max(abs(th) - 0.15, 0.0))
    h_eff = h - reserve
    cap = max(2.0, 4.5 - 0.6 * max(abs(vx) - 1.0, 0.0))
    if h_eff > 0.0:
        vy_des = -min(cap, 0.35 + math.sqrt(2.0 * 1.8 * h_eff))
    else:
        vy_des = -0.35 + min(1.2, -1.5 * h_eff)

    main = 0.25 + 1.5 * (vy_des - vy)

    return np.clip(np.array([main, side], dtype=np.float32), -1.0, 1.0)
