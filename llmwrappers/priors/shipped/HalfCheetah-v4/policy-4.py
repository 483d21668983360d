import numpy as np
import math


def policy(obs):
    # ---- torso ----
    pitch = (float(obs[1]) + math.pi) % (2.0 * math.pi) - math.pi  # + = nose down
    pitch_rate = float(obs[10])

    # ---- upside down: pump the rocking of the torso to roll back ----
    if abs(pitch) > 1.5:
        direction = math.tanh(2.0 * pitch_rate)
        # thigh torque reacts on the torso with the opposite sign
        a = np.array([-direction, 0.5 * direction, 0.0,
                      -direction, 0.5 * direction, 0.0])
        return np.clip(a, -1.0, 1.0)

    # ---- gait phase from the antisymmetric thigh motion ----
    d = float(obs[2]) - float(obs[5])
    s = (float(obs[11]) - float(obs[14])) / 22.0
    r = math.sqrt(d * d + s * s) + 0.1
    S = d / r   # > 0: back leg is behind, front leg is in front
    C = s / r   # > 0: back leg sweeps backward, front leg swings forward

    # ---- pitch correction ----
    sym = max(-0.5, min(0.5, 0.6 * pitch + 0.05 * pitch_rate))
    tilt = max(-0.4, min(0.4, 0.5 * pitch))

    # ---- drives ----
    thigh = 0.85 * math.tanh(1.5 * (C - 0.7 * S))
    shin = 0.60 * math.tanh(1.5 * (0.85 * S - 0.5 * C))
    foot = 0.50 * math.tanh(1.5 * (0.8 * C - 0.5 * S))

    bthigh = thigh + sym
    bshin = shin - 0.10 + tilt
    bfoot = foot + 0.10

    fthigh = -thigh + sym
    fshin = shin + 0.10 + tilt
    ffoot = -foot + 0.15 + 0.5 * tilt

    action = np.array([bthigh, bshin, bfoot, fthigh, fshin, ffoot])
    return np.clip(action, -1.0, 1.0)
