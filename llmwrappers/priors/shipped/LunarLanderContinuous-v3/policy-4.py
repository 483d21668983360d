import numpy as np
import math


def policy(obs):
    x = float(obs[0])
    y = float(obs[1])
    vx = float(obs[2])
    vy = float(obs[3])
    angle = float(obs[4])
    omega = float(obs[5])
    leg_right = float(obs[6]) > 0.5
    leg_left = float(obs[7]) > 0.5

    if leg_right or leg_left:
        # On the ground: engines off, only catch a remaining fall.
        main = -10.0 * vy - 1.5
        if main <= 0.0:
            main = -1.0
        side = 0.0
        if not (leg_right and leg_left):
            # One leg only: stop the lander from tipping over.
            tipping = angle * omega > 0.0 and abs(omega) > 0.05
            if abs(angle) > 0.2 and tipping:
                # angle > 0 needs a clockwise turn, i.e. a positive command
                side = 1.0 if angle > 0.0 else -1.0
        return np.clip(np.array([main, side], dtype=np.float32), -1.0, 1.0)

    # Wanted angle: lean left (positive) when right of the pad or moving right.
    limit = min(0.4, max(0.12, 0.12 + 0.8 * y))
    angle_ref = 0.6 * x + 1.0 * vx
    angle_ref = max(-limit, min(limit, angle_ref))

    # Attitude: positive turn = counterclockwise = negative side command.
    turn = 15.0 * (angle_ref - angle) - 20.0 * omega
    side = -turn

    # Vertical: slower when lower, and stay above a funnel around the pad.
    hover = 0.5 * max(abs(x) - 0.04, 0.0)
    vy_ref = hover - y
    vy_ref = max(-0.7, min(0.3, vy_ref))
    main = 10.0 * (vy_ref - vy) - 1.0

    return np.clip(np.array([main, side], dtype=np.float32), -1.0, 1.0)
