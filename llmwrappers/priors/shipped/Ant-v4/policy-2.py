import numpy as np
import math


def policy(obs):
    obs = np.asarray(obs, dtype=float)

    W = 12.0         # hop frequency (rad/s)
    DT = 0.05
    A = 0.42         # hip sweep amplitude (rad)
    B = 0.26         # ankle amplitude (rad)
    E0 = 0.85        # mean ankle extension (rad)
    LAG = -3.0       # ankle phase relative to the hips: short leg at mid sweep
    KP = 0.67
    KD = 0.12

    hip_o = [5, 7, 9, 11]
    ank_o = [6, 8, 10, 12]
    hip_v = [19, 21, 23, 25]
    ank_v = [20, 22, 24, 26]
    hip_a = [2, 4, 6, 0]
    ank_a = [3, 5, 7, 1]
    hs = np.array([-1.0, -1.0, 1.0, 1.0])
    es = np.array([1.0, -1.0, -1.0, 1.0])
    left = np.array([1.0, 1.0, -1.0, -1.0])
    k = math.sqrt(0.5)
    lx = np.array([k, -k, -k, k])
    ly = np.array([k, k, -k, -k])

    # torso attitude
    height = obs[0]
    q = obs[1:5] / (math.sqrt(float(np.dot(obs[1:5], obs[1:5]))) + 1e-9)
    w, x, y, z = q
    yaw = math.atan2(2.0 * (w * z + x * y), 1.0 - 2.0 * (y * y + z * z))
    ux = 2.0 * (x * z - w * y)
    uy = 2.0 * (y * z + w * x)
    uz = 1.0 - 2.0 * (x * x + y * y)
    wx, wy, wz = obs[16], obs[17], obs[18]

    # leg coordinates: h forward, e down
    h = hs * obs[hip_o]
    dh = hs * obs[hip_v]
    e = es * obs[ank_o]
    de = es * obs[ank_v]

    # stroke per leg, with steering
    turn = float(np.clip(0.6 * yaw + 0.08 * wz, -0.5, 0.5))
    upright = float(np.clip((uz - 0.2) / 0.5, 0.15, 1.0))
    Ai = np.clip(A * (max(math.cos(yaw), 0.0) + turn * left), -0.48, 0.48) * upright

    # common phase of the four hips
    den = float(np.dot(Ai, Ai)) + 1e-6
    c = float(np.dot(Ai, h)) / den
    dc = float(np.dot(Ai, dh)) / den
    p = math.atan2(-dc / W, c)
    p1 = p + W * DT

    # hips: backward sweep for 0 < p < pi
    h_now = Ai * math.cos(p)
    dh_next = -Ai * W * math.sin(p1)

    # ankles: shortest leg in the middle of the backward sweep, then extend
    Bh = B * float(np.clip((0.90 - height) / 0.20, 0.1, 1.0)) * upright
    el = ux * lx + uy * ly
    del_ = -wy * lx + wx * ly
    corr = np.clip(-0.35 * el - 0.04 * del_, -0.18, 0.18)
    e_now = np.clip(E0 + Bh * math.sin(p + LAG) + corr, 0.56, 1.18)
    de_next = Bh * W * math.cos(p1 + LAG)

    uh = KP * (h_now - h) + KD * (dh_next - dh) + dh_next / 150.0
    ue = KP * (e_now - e) + KD * (de_next - de) + 0.006

    act = np.zeros(8)
    act[hip_a] = hs * uh
    act[ank_a] = es * ue
    return np.clip(act, -1.0, 1.0)
