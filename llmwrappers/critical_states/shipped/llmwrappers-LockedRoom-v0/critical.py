import numpy as np
import math


def critical(obs):
    o = [int(round(float(v))) for v in obs]
    x, y, hx, hy = o[0], o[1], o[2], o[3]
    has_key = (o[4] == 1)
    ahead = o[6]
    key_there = (o[11] == 1)
    locked_there = (o[15] == 1)
    goal_there = (o[28] == 1)

    # which part of the task: fetch the key, or go to the goal
    to_goal = goal_there and (has_key or not locked_there)
    to_key = (not to_goal) and key_there and o[4] == 0

    # nothing sensible to aim at: leave it to the agent
    if not (to_goal or to_key):
        return False, 0, 0.0

    # target in absolute cells
    if to_goal:
        a, r = o[29], o[30]
    else:
        a, r = o[12], o[13]
    tx = x + a * hx - r * hy
    ty = y + a * hy + r * hx

    # areas: side -1 left rooms, 0 hall, 1 right rooms; row of the room's door
    t_side = -1 if tx <= 7 else (1 if tx >= 11 else 0)
    a_side = -1 if x <= 7 else (1 if x >= 11 else 0)
    t_row = 3 if ty < 6 else (9 if ty < 12 else 15)
    a_row = 3 if y < 6 else (9 if y < 12 else 15)
    on_door = (x == 7 or x == 11)
    same = (a_side == t_side) and (a_side == 0 or a_row == t_row)

    dx = tx - x
    dy = ty - y
    sx = (1 if dx > 0 else 0) - (1 if dx < 0 else 0)
    sy = (1 if dy > 0 else 0) - (1 if dy < 0 else 0)

    # the wanted direction (wx, wy)
    wx, wy = 0, 0
    if on_door:
        # a door cell is left only horizontally: into its room or to the hall
        wx = a_side if same else -a_side
    elif same:
        # same rectangle as the target: straight to it with few turns
        if sx != 0 and sx == hx:
            wx = sx
        elif sy != 0 and sy == hy:
            wy = sy
        elif hx != 0:
            if sy != 0:
                wy = sy
            else:
                wx = sx
        else:
            if sx != 0:
                wx = sx
            else:
                wy = sy
    elif a_side != 0:
        # in a room without the target: to the row of its door, then out
        if y != a_row:
            wy = 1 if a_row > y else -1
        else:
            wx = -a_side
    else:
        # in the hall: to the row of the target's door, then to the door
        if y != t_row:
            wy = 1 if t_row > y else -1
        else:
            wx = t_side

    facing = (hx == wx and hy == wy)
    side = -hy * wx + hx * wy   # > 0: wanted direction is to the right

    # already on the target or heading unreadable: leave it to the agent
    if (wx == 0 and wy == 0) or (hx == 0 and hy == 0):
        return False, 0, 0.0

    # the key is in the cell ahead and is needed: take it
    if to_key and facing and ahead == 5:
        return True, 3, 0.0

    # the locked door is ahead and the key is carried: unlock and open it
    if to_goal and facing and ahead == 3 and has_key:
        return True, 5, 0.0

    # on the way to the key a closed door is ahead: open it
    if to_key and facing and ahead == 2:
        return True, 5, 0.0

    # on the way to the goal a closed door is ahead: open it
    if to_goal and facing and ahead == 2:
        return True, 5, 0.0

    # a dropped key blocks the way to the goal: pick it up to clear the way
    if to_goal and facing and ahead == 5 and o[4] == 0:
        return True, 3, 0.0

    # on the way to the key, way ahead is free or an open door: go on
    if to_key and facing and (ahead == 0 or ahead == 4):
        return True, 2, 0.0

    # on the way to the goal, free cell, open door or the goal ahead: go on
    if to_goal and facing and (ahead == 0 or ahead == 4 or ahead == 8):
        return True, 2, 0.0

    # on the way to the key, the wanted direction is to the left: turn left
    if to_key and not facing and side < 0:
        return True, 0, 0.0

    # on the way to the key, wanted direction to the right or behind: turn right
    if to_key and not facing and side >= 0:
        return True, 1, 0.0

    # on the way to the goal, the wanted direction is to the left: turn left
    if to_goal and not facing and side < 0:
        return True, 0, 0.0

    # on the way to the goal, wanted direction to the right or behind: turn right
    if to_goal and not facing and side >= 0:
        return True, 1, 0.0

    # something unexpected is ahead: leave it to the agent
    return False, 0, 0.0
