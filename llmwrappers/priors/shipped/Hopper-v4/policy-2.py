import numpy as np
import math


def policy(obs):
    z = float(obs[0])
    pitch = float(obs[1])
    q1, q2, q3 = float(obs[2]), float(obs[3]), float(obs[4])
    vx, vz = float(obs[5]), float(obs[6])
    dpitch = float(obs[7])
    d1, d2, d3 = float(obs[8]), float(obs[9]), float(obs[10])

    thigh = q1 - pitch
    shin = thigh + q2
    foot = shin + q3
    dthigh = d1 - dpitch
    dshin = dthigh + d2

    # foot clearance
    ankle_z = z - 0.2 * math.cos(pitch) - 0.45 * math.cos(thigh) - 0.5 * math.cos(shin)
    toe_clear = ankle_z + 0.26 * math.sin(foot) - 0.06
    heel_clear = ankle_z - 0.13 * math.sin(foot) - 0.06
    contact = min(toe_clear, heel_clear) < 0.006

    lean = -0.5 * (thigh + shin)
    dlean = -0.5 * (dthigh + dshin)
    s = lean + 0.2 * dlean

    # hip holds the torso
    u_hip = -2.5 * (pitch + 0.06) - 0.22 * dpitch

    if contact:
        go = min(max((s - 0.28) / 0.12, 0.0), 1.0)
        if foot < -0.15 and vz > 0.1:
            go = max(go, 0.8)
        if vz < -0.2:
            hop = 0.9 * (-0.35 - q3) - 0.04 * d3
            hop = min(max(hop, -0.7), 0.05)
        else:
            hop = -0.8
        tip = 0.06
        if lean < 0.0:
            tip = 0.10
        tip -= 0.5 * max(foot, 0.0)
        u_foot = go * hop + (1.0 - go) * tip
        knee_ref = -0.10 + 0.08 * go
    else:
        foot_ref = 0.10 - 0.9 * (lean - 0.2)
        foot_ref = min(max(foot_ref, -0.25), 0.15)
        q3_ref = min(max(foot_ref - shin, -0.7), 0.7)
        u_foot = 1.0 * (q3_ref - q3) - 0.10 * d3
        knee_ref = -0.15

    u_knee = 2.0 * (knee_ref - q2) - 0.15 * d2

    action = np.array([u_hip, u_knee, u_foot], dtype=np.float64)
    return np.clip(action, -1.0, 1.0)
