import numpy as np
import math


def policy(obs):
    # --- observation ---
    pitch = math.atan2(math.sin(float(obs[1])), math.cos(float(obs[1])))
    dpitch = float(np.clip(obs[10], -8.0, 8.0))
    q_bt = float(obs[2])
    q_ft = float(obs[5])
    v_bt = float(obs[11])
    v_ft = float(obs[14])

    # --- gait phase: difference mode of the thighs, locked to the body's pitch ---
    p_c = float(np.clip(pitch, -0.3, 0.3))
    dp_c = float(np.clip(dpitch, -4.0, 4.0))
    X = (q_bt - q_ft) / 0.9 + 0.10 * dp_c
    Y = (v_bt - v_ft) / 17.0 - 2.0 * p_c

    r = math.sqrt(X * X + Y * Y)
    s = 1.4 / (r + 0.4)          # soft normalisation: about 1 at r = 1
    cx = X * s
    cy = Y * s

    # torque patterns that lead the difference velocity
    d_thigh = math.radians(30.0)
    d_ext = math.radians(40.0)
    D = cy * math.cos(d_thigh) - cx * math.sin(d_thigh)
    E = cy * math.cos(d_ext) - cx * math.sin(d_ext)
    D = float(np.clip(D, -1.1, 1.1))
    E = float(np.clip(E, -1.1, 1.1))

    # D > 0: back leg sweeps back (push), front leg swings forward
    # E > 0: back leg extends, front leg folds
    u_bthigh = 0.90 * D
    u_bshin = -0.55 * E
    u_bfoot = 0.40 * E
    u_fthigh = -0.85 * D
    u_fshin = -0.65 * E
    u_ffoot = -0.50 * E

    # --- protection against tumbling (e > 0: too much nose down) ---
    pp = pitch + 0.06 * dpitch
    e = pp - float(np.clip(pp, -0.3, 0.3))
    e = float(np.clip(e, -0.5, 0.5))

    u_bthigh += 1.0 * e
    u_bshin += 1.0 * e
    u_bfoot += -0.5 * e
    u_fthigh += 1.5 * e
    u_fshin += 1.5 * e
    u_ffoot += 1.5 * e

    action = np.array([u_bthigh, u_bshin, u_bfoot, u_fthigh, u_fshin, u_ffoot],
                      dtype=np.float64)
    return np.clip(action, -1.0, 1.0)
