import numpy as np
import math


def policy(obs):
    obs = np.asarray(obs, dtype=float).ravel()

    # ---------------- constants ----------------
    W = 11.0            # gait frequency, rad/s
    DT = 0.05           # control step, s
    A0 = 0.42           # hip amplitude, rad
    PHI_ST = 0.95       # ankle depression in stance, rad
    DPHI = 0.40         # ankle lift in swing, rad
    GEAR = 150.0
    KP_H, KD_H = 0.7, 0.09
    KP_A, KD_A = 1.2, 0.12

    # legs in the order 1, 2, 3, 4
    F = np.array([-1.0, -1.0, 1.0, 1.0])      # h = F*q : + is foot forward
    S = np.array([1.0, -1.0, -1.0, 1.0])      # phi = S*q : + is foot down
    SIG = np.array([1.0, -1.0, 1.0, -1.0])    # trot pairs (1,3) and (2,4)
    OFF = np.array([0.0, math.pi, 0.0, math.pi])
    PSI = np.array([0.45, 0.0, 0.0, 0.45])    # ankle lag, front legs 1 and 4
    SIDE = np.array([1.0, 1.0, -1.0, -1.0])   # + is left
    c = math.sqrt(0.5)
    DX = c * np.array([1.0, -1.0, -1.0, 1.0])
    DY = c * np.array([1.0, 1.0, -1.0, -1.0])

    # ---------------- torso state ----------------
    quat = obs[1:5]
    n = float(np.linalg.norm(quat))
    if n < 1e-8:
        w, x, y, z = 1.0, 0.0, 0.0, 0.0
    else:
        w, x, y, z = [float(k) / n for k in quat]
    yaw = math.atan2(2.0 * (w * z + x * y), 1.0 - 2.0 * (y * y + z * z))
    upx = 2.0 * (x * z - w * y)               # world up in the body frame
    upy = 2.0 * (y * z + w * x)
    upz = 1.0 - 2.0 * (x * x + y * y)
    wx, wy, wz = float(obs[16]), float(obs[17]), float(obs[18])

    # ---------------- joints ----------------
    q = obs[5:13]
    qd = obs[19:27]
    h = F * q[0::2]
    hd = F * qd[0::2]
    phi = S * q[1::2]
    phid = S * qd[1::2]

    # ---------------- heading: stride left/right ----------------
    turn = float(np.clip(0.8 * yaw + 0.1 * wz, -0.6, 0.6))
    scale = float(np.clip((upz - 0.4) / 0.4, 0.4, 1.0))
    A = np.clip(A0 * scale * (1.0 + turn * SIDE), 0.08, 0.50)

    # ---------------- phase from the hips ----------------
    den = float(np.sum(A * A))
    p = float(np.sum(SIG * A * h)) / den
    v = float(np.sum(SIG * A * hd)) / (den * W)
    if abs(p) + abs(v) < 1e-9:
        theta = 0.0
    else:
        theta = math.atan2(-v, p)

    # ---------------- levelling ----------------
    corner = upx * DX + upy * DY              # height of each corner
    corner_rate = wx * DY - wy * DX           # its vertical speed
    level = np.clip(-0.5 * corner - 0.04 * corner_rate, -0.2, 0.2)

    # ---------------- reference ----------------
    def ref(th):
        ti = th + OFF
        hr = A * np.cos(ti)
        lift = (0.5 * (1.0 - np.sin(ti - PSI))) ** 2
        pr = PHI_ST - DPHI * lift
        return hr, pr

    e = 0.05
    d = 0.5 * W * DT
    h0, p0 = ref(theta)
    hp, pp = ref(theta + e)
    hm, pm = ref(theta - e)
    h1, p1 = ref(theta + d)
    h2, p2 = ref(theta + 2.0 * d)

    h_vel = (hp - hm) / (2.0 * e) * W
    p_vel = (pp - pm) / (2.0 * e) * W
    h_acc = (h2 - 2.0 * h1 + h0) / (d * d) * W * W
    p_acc = (p2 - 2.0 * p1 + p0) / (d * d) * W * W

    p_ref = np.clip(p0 + level, 0.53, 1.20)

    # ---------------- torques ----------------
    a_h = (h_acc + h_vel) / GEAR + KP_H * (h0 - h) + KD_H * (h_vel - hd)
    a_p = (p_acc + p_vel) / GEAR + KP_A * (p_ref - phi) + KD_A * (p_vel - phid)

    hip = F * a_h
    ank = S * a_p

    action = np.array([
        hip[3], ank[3],      # leg 4
        hip[0], ank[0],      # leg 1
        hip[1], ank[1],      # leg 2
        hip[2], ank[2],      # leg 3
    ])
    action = np.nan_to_num(action, nan=0.0, posinf=1.0, neginf=-1.0)
    return np.clip(action, -1.0, 1.0)
