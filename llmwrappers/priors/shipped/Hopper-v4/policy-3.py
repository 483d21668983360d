import numpy as np
import math


def _sig(x):
    x = min(max(x, -30.0), 30.0)
    return 1.0 / (1.0 + math.exp(-x))


def _clip(x, lo, hi):
    return min(max(x, lo), hi)


def policy(obs):
    o = [float(v) for v in obs]
    z, phi, q1, q2, q3 = o[0], o[1], o[2], o[3], o[4]
    vx, vz, dphi, d1, d2, d3 = o[5], o[6], o[7], o[8], o[9], o[10]

    a1 = q1 - phi
    a2 = a1 + q2
    a3 = a2 + q3
    w1 = d1 - dphi
    w2 = w1 + d2
    w3 = w2 + d3
    s1, c1 = math.sin(a1), math.cos(a1)
    s2, c2 = math.sin(a2), math.cos(a2)
    s3, c3 = math.sin(a3), math.cos(a3)

    # joint positions / velocities relative to the torso centre
    hip = (-0.2 * math.sin(phi), -0.2 * math.cos(phi))
    hip_v = (-0.2 * math.cos(phi) * dphi, 0.2 * math.sin(phi) * dphi)
    knee = (hip[0] + 0.45 * s1, hip[1] - 0.45 * c1)
    knee_v = (hip_v[0] + 0.45 * c1 * w1, hip_v[1] + 0.45 * s1 * w1)
    ank = (knee[0] + 0.5 * s2, knee[1] - 0.5 * c2)
    ank_v = (knee_v[0] + 0.5 * c2 * w2, knee_v[1] + 0.5 * s2 * w2)

    # centre of mass
    m1, m2, m3 = 4.06, 2.78, 5.32
    M = 3.67 + m1 + m2 + m3
    com_x = (m1 * (hip[0] + 0.225 * s1) + m2 * (knee[0] + 0.25 * s2)
             + m3 * (ank[0] + 0.065 * c3)) / M
    com_vx = vx + (m1 * (hip_v[0] + 0.225 * c1 * w1)
                   + m2 * (knee_v[0] + 0.25 * c2 * w2)
                   + m3 * (ank_v[0] - 0.065 * s3 * w3)) / M
    com_vz = vz + (m1 * (hip_v[1] + 0.225 * s1 * w1)
                   + m2 * (knee_v[1] + 0.25 * s2 * w2)
                   + m3 * (ank_v[1] + 0.065 * c3 * w3)) / M

    # stance weight from the foot clearance
    ank_z = z + ank[1]
    clear = min(ank_z + 0.26 * s3, ank_z - 0.13 * s3) - 0.06
    stance = _sig((0.010 - clear) / 0.002)

    # ---- ankle, stance: COP control plus gated hop ----
    cap = (com_x - ank[0]) + 0.25 * com_vx
    p = _clip(cap - 0.09, -0.10, 0.22)
    u3_bal = -0.775 * p - 0.5 * max(a3, 0.0)
    gate = _sig((cap - 0.23) / 0.025)
    rising = _sig((com_vz - 0.15) / 0.05) * _sig((-0.14 - a3) / 0.03)
    gate = max(gate, 0.85 * rising)
    if com_vz < -0.5:
        gate *= 0.6
    u3_st = (1.0 - gate) * u3_bal - 0.65 * gate

    # ---- ankle, flight: landing angle ----
    err = (ank[0] + 0.065 - com_x) - 0.12 * com_vx
    a3_ref = _clip(0.05 + 1.0 * err, -0.20, 0.25)
    q3_ref = _clip(a3_ref - a2, -0.70, 0.70)
    u3_fl = 1.0 * (q3_ref - q3) - 0.10 * d3

    u3 = stance * _clip(u3_st, -1.0, 1.0) + (1.0 - stance) * _clip(u3_fl, -1.0, 1.0)

    # ---- knee ----
    q2_ref = stance * (-0.10 * (1.0 - gate)) + (1.0 - stance) * (-0.25)
    u2 = 1.8 * (q2_ref - q2) - 0.15 * d2

    # ---- hip: torso pitch ----
    u1 = -3.2 * (phi + 0.04) - 0.27 * dphi

    return np.clip(np.array([u1, u2, u3], dtype=np.float64), -1.0, 1.0)
