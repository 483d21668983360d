import numpy as np
import math


def policy(obs):
    # ---- read the observation ----
    pitch = math.atan2(math.sin(obs[1]), math.cos(obs[1]))  # + = nose down
    pitch_rate = float(obs[10])
    q_b, qd_b = float(obs[2]), float(obs[11])   # back thigh
    q_f, qd_f = float(obs[5]), float(obs[14])   # front thigh

    # ---- gait phase from the antiphase motion of the thighs ----
    w = 19.5
    s = 0.5 * (q_b - q_f) + 0.02
    sd = 0.5 * (qd_b - qd_f) / w
    r = math.sqrt(s * s + sd * sd) + 0.10
    c0 = s / r
    v0 = sd / r
    # look ahead by half a control step (the action is held for 0.05 s)
    d = 0.025 * w
    c = c0 * math.cos(d) + v0 * math.sin(d)
    v = v0 * math.cos(d) - c0 * math.sin(d)

    # back leg phase: (c, v); front leg phase: the opposite
    cf = -c
    vf = -v

    # ---- pitch feedback ----
    e = pitch + 0.08 * pitch_rate
    e = max(-0.8, min(0.8, e))
    drive = max(0.5, min(1.0, 1.3 - 0.75 * abs(pitch)))

    # ---- actions ----
    a = np.zeros(6)
    # back leg: thigh pumps, shin extends in stance / flexes in swing, foot pushes
    a[0] = drive * (0.80 * v) + 0.05 + 0.40 * e
    a[1] = drive * (0.35 * c - 0.40 * v) - 0.10 + 0.35 * e
    a[2] = drive * (0.60 * v - 0.25 * c) + 0.05
    # front leg: positive shin extends, negative shin lifts the foot
    a[3] = drive * (0.70 * vf) + 0.10 + 0.50 * e
    a[4] = drive * (0.50 * vf - 0.80 * cf) + 0.15 + 0.50 * e
    a[5] = drive * (0.50 * vf - 0.25 * cf) + 0.10 + 0.20 * e

    return np.clip(a, -1.0, 1.0)
