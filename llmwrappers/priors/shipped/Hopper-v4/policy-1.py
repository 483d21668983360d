import numpy as np
import math


def policy(obs):
    z, phi, q1, q2, q3 = [float(v) for v in obs[0:5]]
    vx, vz, dphi, d1, d2, d3 = [float(v) for v in obs[5:11]]

    # world angles (from straight down, forward positive) and rates
    a1 = q1 - phi
    a2 = a1 + q2
    a3 = a2 + q3
    w1 = d1 - dphi
    w2 = w1 + d2
    w3 = w2 + d3

    # forward kinematics relative to the torso centre
    hx, hz = -0.2 * math.sin(phi), -0.2 * math.cos(phi)
    hvx, hvz = -0.2 * math.cos(phi) * dphi, 0.2 * math.sin(phi) * dphi
    s1, c1 = math.sin(a1), math.cos(a1)
    s2, c2 = math.sin(a2), math.cos(a2)
    s3, c3 = math.sin(a3), math.cos(a3)
    kx, kz = hx + 0.45 * s1, hz - 0.45 * c1
    kvx, kvz = hvx + 0.45 * c1 * w1, hvz + 0.45 * s1 * w1
    ax, az = kx + 0.5 * s2, kz - 0.5 * c2
    avx, avz = kvx + 0.5 * c2 * w2, kvz + 0.5 * s2 * w2
    toe_x = ax + 0.26 * c3
    toe_z = z + az + 0.26 * s3 - 0.06
    heel_z = z + az - 0.13 * s3 - 0.06
    clear = min(toe_z, heel_z)

    # centre of mass
    mt, mth, ml, mf = 3.67, 4.06, 2.78, 5.32
    M = mt + mth + ml + mf
    cx = (mth * (hx + 0.225 * s1) + ml * (kx + 0.25 * s2)
          + mf * (ax + 0.065 * c3)) / M
    cvx = vx + (mth * (hvx + 0.225 * c1 * w1) + ml * (kvx + 0.25 * c2 * w2)
                + mf * (avx - 0.065 * s3 * w3)) / M
    cvz = vz + (mth * (hvz + 0.225 * s1 * w1) + ml * (kvz + 0.25 * s2 * w2)
                + mf * (avz + 0.065 * c3 * w3)) / M

    # hip: keep the torso upright
    u1 = -3.0 * (phi + 0.03) - 0.25 * dphi

    if clear < 0.006:
        # ---------------- stance ----------------
        xi = (cx - toe_x) + 0.2 * cvx
        push = min(max((xi + 0.10) / 0.10, 0.0), 1.0)
        if cvz < -0.4:
            push *= 0.5                      # still coming down
        if a3 < -0.12 and cvz > 0.1:
            push = max(push, 0.7)            # heel already up: finish the push
        u3 = 0.06 * (1.0 - push) - 0.60 * push
        u3 -= 0.5 * max(a3, 0.0)             # on the heel: bring the toe down
        q2_ref = -0.08 * (1.0 - push)
    else:
        # ---------------- flight ----------------
        a3_ref = 0.10 + 0.15 * (0.8 - cvx)
        a3_ref = min(max(a3_ref, -0.15), 0.25)
        q3_ref = min(max(a3_ref - a2, -0.70), 0.70)
        u3 = 1.0 * (q3_ref - q3) - 0.10 * d3
        q2_ref = -0.18

    u2 = 2.0 * (q2_ref - q2) - 0.15 * d2

    return np.clip(np.array([u1, u2, u3], dtype=np.float64), -1.0, 1.0)
