import numpy as np
import math


def policy(obs):
    # torso
    pitch = math.atan2(math.sin(float(obs[1])), math.cos(float(obs[1])))
    pitch_rate = float(obs[10])

    # thigh angles and velocities (phase variables)
    qb = float(obs[2])
    qf = float(obs[5])
    vb = float(obs[11])
    vf = float(obs[14])

    # normalised, mixed so that back and front lock in antiphase
    sb = (0.6 * qb - 0.4 * qf) / 0.45
    cb = (0.6 * vb - 0.4 * vf) / 7.0
    sf = (0.6 * qf - 0.4 * qb) / 0.45
    cf = (0.6 * vf - 0.4 * vb) / 7.0

    # thighs: positive velocity feedback = self-excited swing
    bthigh = 0.95 * math.tanh(1.6 * (0.9 * cb - 0.3 * sb))
    fthigh = 0.95 * math.tanh(1.6 * (0.9 * cf - 0.3 * sf))

    # leg length: extend in stance, flex in swing (with phase lead)
    ext_b = math.tanh(1.3 * (0.6 * cb - 0.75 * sb))
    ext_f = math.tanh(1.3 * (0.6 * cf - 0.75 * sf))
    bshin = -0.65 * ext_b - 0.05
    fshin = 0.65 * ext_f + 0.05

    # feet: push-off with the backward sweep
    bfoot = 0.55 * math.tanh(1.3 * (0.95 * cb - 0.25 * sb))
    ffoot = 0.55 * math.tanh(1.3 * (0.95 * cf - 0.25 * sf))

    # torso pitch correction (positive = nose too low)
    p = (pitch - 0.05) + 0.08 * pitch_rate
    p = max(-1.0, min(1.0, p))
    bthigh += 0.35 * p
    fthigh += 0.35 * p
    bshin += 0.35 * p
    fshin += 0.45 * p
    bfoot -= 0.10 * p
    ffoot += 0.20 * p

    action = np.array([bthigh, bshin, bfoot, fthigh, fshin, ffoot])
    return np.clip(action, -1.0, 1.0)
