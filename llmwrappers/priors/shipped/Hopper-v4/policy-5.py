import numpy as np
import math


def policy(obs):
    z = float(obs[0])
    q1, q2, q3, q4 = float(obs[1]), float(obs[2]), float(obs[3]), float(obs[4])
    vx, vz = float(obs[5]), float(obs[6])
    d1, d2, d3, d4 = float(obs[7]), float(obs[8]), float(obs[9]), float(obs[10])

    # absolute pitches and rates (positive: upper end ahead of the lower end;
    # for the foot: toe down)
    a0 = q1
    a1 = a0 - q2
    a2 = a1 - q3
    a3 = a2 - q4
    w0 = d1
    w1 = w0 - d2
    w2 = w1 - d3
    w3 = w2 - d4

    s0, c0 = math.sin(a0), math.cos(a0)
    s1, c1 = math.sin(a1), math.cos(a1)
    s2, c2 = math.sin(a2), math.cos(a2)
    s3, c3 = math.sin(a3), math.cos(a3)

    # kinematics relative to the torso centre
    hip_x, hip_z = -0.2 * s0, -0.2 * c0
    kne_x, kne_z = hip_x - 0.45 * s1, hip_z - 0.45 * c1
    ank_x, ank_z = kne_x - 0.5 * s2, kne_z - 0.5 * c2
    toe_x = ank_x + 0.26 * c3
    toe_h = z + ank_z - 0.26 * s3 - 0.06
    heel_h = z + ank_z + 0.13 * s3 - 0.06

    # velocities relative to the torso centre
    hvx, hvz = -0.2 * c0 * w0, 0.2 * s0 * w0
    kvx, kvz = hvx - 0.45 * c1 * w1, hvz + 0.45 * s1 * w1
    avx, avz = kvx - 0.5 * c2 * w2, kvz + 0.5 * s2 * w2

    # centre of mass
    m1, m2, m3, m4 = 3.665, 4.058, 2.781, 5.315
    M = m1 + m2 + m3 + m4
    com_x = (m2 * (hip_x - 0.225 * s1)
             + m3 * (kne_x - 0.25 * s2)
             + m4 * (ank_x + 0.065 * c3)) / M
    com_vx = vx + (m2 * (hvx - 0.225 * c1 * w1)
                   + m3 * (kvx - 0.25 * c2 * w2)
                   + m4 * (avx - 0.065 * s3 * w3)) / M
    com_vz = vz + (m2 * (hvz + 0.225 * s1 * w1)
                   + m3 * (kvz + 0.25 * s2 * w2)
                   + m4 * (avz - 0.065 * c3 * w3)) / M
    ankle_vz = vz + avz

    # leg pitch (hip to ankle) and its rate
    phi = (0.45 * a1 + 0.5 * a2) / 0.95
    phid = (0.45 * w1 + 0.5 * w2) / 0.95

    x_rel = com_x - toe_x              # COM ahead of the toe (usually negative)
    xi = x_rel + 0.7 * com_vx          # "ready to push" measure
    c_push = 0.40

    contact = min(toe_h, heel_h) < 0.010
    toe_contact = toe_h < 0.012
    absorbed = com_vz > -0.6
    trigger = (xi > c_push) and (x_rel > -0.27)
    rolling = (toe_contact and ankle_vz > 0.02 and x_rel > -0.22
               and xi > c_push - 0.25)
    push = contact and absorbed and (trigger or rolling)

    # hip: torso attitude, in stance and in flight
    a0_t = min(max(0.5 * phi - 0.05, -0.12), 0.0)
    u_hip = 3.5 * (a0_t - a0) - 0.30 * w0

    if push:
        # ankle push-off, its strength set by the leg swing that is still missing
        phi_td = min(max(-0.25 * (com_vx - 0.8), -0.12), 0.05)
        err = phid + (phi - phi_td) / 0.45
        u = min(max(0.55 + 0.5 * err, 0.0), 0.9)
        u_ank = -u
        q3_t = 0.02
    elif contact:
        # landing / rolling forward over the heel and the flat foot
        u_ank = 0.10 + 0.8 * (a3 + 0.02) + 0.05 * w3
        u_ank = min(max(u_ank, -0.10), 0.20)
        q3_t = -0.05
    else:
        # flight: foot slightly toe-up; flatter or toe-first when too fast
        a3_t = min(max(0.7 * (xi - 0.65), -0.15), 0.10)
        u_ank = 2.0 * (a3 - a3_t) + 0.20 * w3
        q3_t = -0.08

    # knee: nearly straight
    u_knee = 3.0 * (q3_t - q3) - 0.30 * d3

    return np.clip(np.array([u_hip, u_knee, u_ank], dtype=np.float64), -1.0, 1.0)
