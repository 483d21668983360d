import numpy as np
import math


def policy(obs):
    # pitch, wrapped to (-pi, pi]; positive = nose down
    pitch = math.atan2(math.sin(obs[1]), math.cos(obs[1]))
    rate = float(obs[10])

    # gait phase from the antiphase motion of the two thighs
    omega = 20.0
    d = float(obs[2] - obs[5])
    v = float(obs[11] - obs[14]) / omega
    r = math.sqrt(d * d + v * v) + 0.02
    c = d / r          # cos(phi)
    s = -v / r         # sin(phi): -1 = back stance, +1 = front stance

    def lead(a):
        # sin(phi + a)
        return s * math.cos(a) + c * math.sin(a)

    # less drive when the torso is tilted a lot
    g = 1.0 - 0.8 * max(0.0, abs(pitch) - 0.5)
    g = min(1.0, max(0.4, g))

    th = lead(0.5)
    sh = lead(1.05)
    ft = lead(0.8)

    # pitch correction: > 0 when the nose is (going) down
    b = 1.0 * pitch + 0.08 * rate
    b = min(0.6, max(-0.6, b))

    if math.cos(pitch) < -0.2:
        # on its back: pump the rocking of the torso with both thighs
        p = -math.tanh(2.0 * rate)
        u = np.array([
            0.8 * p,
            0.4 * p,
            0.2 * p,
            0.8 * p,
            0.4 * p,
            0.2 * p,
        ])
        return np.clip(u, -1.0, 1.0)

    u = np.array([
        -0.80 * g * th + 0.4 * b,           # bthigh: + = stroke backward
        0.55 * g * sh - 0.10 + 0.6 * b,     # bshin:  + = fold, - = extend
        -0.50 * g * ft + 0.10 - 0.2 * b,    # bfoot:  + = push off
        0.70 * g * th + 0.5 * b,            # fthigh: + = stroke backward
        0.60 * g * sh + 0.15 + 0.8 * b,     # fshin:  + = push, - = retract
        0.50 * g * ft + 0.10 + 0.6 * b,     # ffoot:  + = push, - = retract
    ])
    return np.clip(u, -1.0, 1.0)
