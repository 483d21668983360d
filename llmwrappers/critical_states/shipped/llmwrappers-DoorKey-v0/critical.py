import numpy as np
import math


def critical(obs):
    v = [int(math.floor(float(t) + 0.5)) for t in obs]
    x = v[0]
    y = v[1]
    hx = v[2]
    hy = v[3]
    ahead = v[6]

    # heading as a number, clockwise: 0 right, 1 down, 2 left, 3 up
    if hx == 1:
        d = 0
    elif hy == 1:
        d = 1
    elif hx == -1:
        d = 2
    else:
        d = 3

    has_key = v[4] == 1
    locked = v[15] == 1

    # the door's place; its column is the wall between the two rooms
    # (no door listed: the agent stands in the doorway)
    a = 0
    r = 0
    if v[15] == 1:
        a = v[16]
        r = v[17]
    elif v[19] == 1:
        a = v[20]
        r = v[21]
    elif v[22] == 1:
        a = v[23]
        r = v[24]
    wx = x + a * hx - r * hy
    wy = y + a * hy + r * hx

    # the goal's place
    gx = 6
    gy = 6
    if v[25] == 1:
        gx = x + v[26] * hx - v[27] * hy
        gy = y + v[26] * hy + v[27] * hx

    in_goal_room = x > wx
    can_walk = ahead == 0 or ahead == 4 or ahead == 8

    # ---- Part A: the door is locked and the key still lies there ----
    if locked and (not has_key) and (not in_goal_room):
        ka = v[12]
        kr = v[13]
        key_there = v[11] == 1

        # The key is in the cell ahead: pick it up.
        if ahead == 5 and v[4] == 0:
            return True, 3, 0.0

        # The key lies further ahead (perhaps also to a side): walk level with it.
        if key_there and ka > 0 and can_walk:
            return True, 2, 0.0

        # The key is level or behind, to the left: turn left to it.
        if key_there and ka <= 0 and kr < 0:
            return True, 0, 0.0

        # The key is level or behind, to the right or straight behind: turn right.
        if key_there and ka <= 0:
            return True, 1, 0.0

        # No way to the key is seen: the agent decides.
        return False, 0, 0.0

    # ---- Part B: to the door and through it ----
    if not in_goal_room:
        # first to the row of the door, then to the right
        want = 0
        if wy < y:
            want = 3
        elif wy > y:
            want = 1
        turn = (want - d) % 4

        # The locked door is in the cell ahead and the key is carried: unlock it.
        if ahead == 3 and has_key:
            return True, 5, 0.0

        # The unlocked door was shut again and is in the cell ahead: open it.
        if ahead == 2:
            return True, 5, 0.0

        # A dropped key lies in the way to the door: take it along.
        if turn == 0 and ahead == 5 and v[4] == 0:
            return True, 3, 0.0

        # The door is open and in the same row: walk up to it and through it.
        if turn == 0 and can_walk and want == 0 and (not locked):
            return True, 2, 0.0

        # The key is carried: walk to the row of the door, then up to the door.
        if turn == 0 and can_walk:
            return True, 2, 0.0

        # It must face the row of the door, or the door itself: left is shorter.
        if turn == 3:
            return True, 0, 0.0

        # It must face the row of the door, or the door itself: turn right.
        if turn == 1 or turn == 2:
            return True, 1, 0.0

        # Something unknown is in the way: the agent decides.
        return False, 0, 0.0

    # ---- Part C: behind the wall, on to the goal ----
    want_h = -1
    if gx > x:
        want_h = 0
    elif gx < x:
        want_h = 2
    want_v = -1
    if gy > y:
        want_v = 1
    elif gy < y:
        want_v = 3

    # number of turns that each of the two directions needs (9: not needed)
    cost_h = 9
    if want_h >= 0:
        cost_h = (want_h - d) % 4
        if cost_h == 3:
            cost_h = 1
    cost_v = 9
    if want_v >= 0:
        cost_v = (want_v - d) % 4
        if cost_v == 3:
            cost_v = 1
    want_g = want_v
    if cost_h <= cost_v:
        want_g = want_h
    turn_g = -1
    if want_g >= 0:
        turn_g = (want_g - d) % 4

    # A dropped key lies in the way to the goal: take it along.
    if turn_g == 0 and ahead == 5 and v[4] == 0:
        return True, 3, 0.0

    # It faces the column or row of the goal: walk on, in the end onto the goal.
    if turn_g == 0 and can_walk:
        return True, 2, 0.0

    # The goal is not ahead any more: the shorter turn towards it is left.
    if turn_g == 3:
        return True, 0, 0.0

    # The goal is not ahead any more: turn right towards it.
    if turn_g == 1 or turn_g == 2:
        return True, 1, 0.0

    # Anything else: the agent decides.
    return False, 0, 0.0
