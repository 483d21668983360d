import numpy as np
import math


def critical(obs):
    v = [int(round(float(q))) for q in obs]
    x, y, hx, hy = v[0], v[1], v[2], v[3]
    carry, kind = v[4], v[6]
    # directions: 0 right, 1 down, 2 left, 3 up
    if hx == 1:
        h = 0
    elif hy == 1:
        h = 1
    elif hx == -1:
        h = 2
    else:
        h = 3
    dirx = [1, 0, -1, 0]
    diry = [0, 1, 0, -1]
    free = [v[7 + (d - h) % 4] for d in range(4)]

    # absolute places
    kx, ky = x + v[12] * hx - v[13] * hy, y + v[12] * hy + v[13] * hx
    ly = y + v[16] * hy + v[17] * hx
    c1 = (x + v[20] * hx - v[21] * hy, y + v[20] * hy + v[21] * hx)
    c2 = (x + v[23] * hx - v[24] * hy, y + v[23] * hy + v[24] * hx)
    o1 = (x + v[26] * hx - v[27] * hy, y + v[26] * hy + v[27] * hx)
    by = y + v[29] * hy + v[30] * hx
    closed = []
    if v[19] == 1:
        closed.append(c1)
    if v[22] == 1:
        closed.append(c2)
    opened = []
    if v[25] == 1:
        opened.append(o1)
    has_key = v[11] == 1
    locked = v[15] == 1
    has_ball = v[28] == 1

    # what can be passed in each direction, and the action that leads there
    isopen = [False] * 4
    shut = [False] * 4
    pas = [False] * 4
    go = [0] * 4
    for d in range(4):
        isopen[d] = free[d] >= 1
        shut[d] = ((x + dirx[d], y + diry[d]) in closed) or (d == h and kind == 2)
        pas[d] = isopen[d] or shut[d]
        diff = (d - h) % 4
        if diff == 3:
            go[d] = 0
        elif diff != 0:
            go[d] = 1
        elif kind == 2 or kind == 3:
            go[d] = 5
        elif (kind == 5 or kind == 6) and carry == 0:
            go[d] = 3
        else:
            go[d] = 2

    # The ball is ahead and the hands are empty: this ends the episode.
    if carry == 0 and kind == 6:
        return True, 3, 0.0

    # The key is ahead and the locked door still needs it.
    if carry == 0 and locked and kind == 5:
        return True, 3, 0.0

    # ---- the locked door is open, the key is still carried: get rid of it ----
    if carry != 0 and (not locked) and has_ball:
        # In front of the ball's door, facing a free corridor cell: drop the key there.
        if x == 3 and y == by and (h == 1 or h == 3) and kind == 0:
            return True, 4, 0.0
        # In front of the ball's door: turn to a free corridor cell (an open door takes no key).
        if x == 3 and y == by:
            return True, (go[1] if free[1] >= 1 else go[3]), 0.0
        # In the door cell before the ball, facing the corridor: drop the key behind us.
        if x == 4 and y == by and h == 2 and kind == 0:
            return True, 4, 0.0
        # In the door cell before the ball with the key in hand: turn to the corridor.
        if x == 4 and y == by:
            return True, go[2], 0.0
        # In the corridor with the key, door already unlocked: walk to the ball's row.
        if x == 3:
            return True, (go[1] if by > y else go[3]), 0.0

    # ---- the door is unlocked, the hands are empty: fetch the ball ----
    if carry == 0 and (not locked) and has_ball:
        # In the ball's row: face right, (re)open the door, go in.
        if y == by and (x == 3 or x == 4):
            return True, go[0], 0.0
        # In the corridor: walk to the ball's row (a key in the way is picked up).
        if x == 3:
            return True, (go[1] if by > y else go[3]), 0.0

    # ---- the key is carried, the door is locked: unlock it ----
    if carry != 0 and locked:
        # In front of the locked door: face it and toggle.
        if x == 3 and y == ly:
            return True, go[0], 0.0
        # In the corridor: walk to the row of the locked door.
        if x == 3:
            return True, (go[1] if ly > y else go[3]), 0.0

    # ---- nothing carried, door locked: fetch the key ----
    fetch = carry == 0 and locked and has_key
    same_side = False
    # The key lies in the corridor (dropped too early): walk to it, pick it up.
    if fetch and kx == 3 and x == 3:
        return True, (go[1] if ky > y else go[3]), 0.0

    if fetch and kx != 3:
        s = -1 if kx < 3 else 1
        inn = 2 if s < 0 else 0
        out = 2 - inn
        dx = 3 + s
        same_side = (x - 3) * s > 0

        if x == 3:
            if y == ky:
                present = pas[inn]
            else:
                present = ((dx, ky) in closed) or ((dx, ky) in opened)
            # In the key's row and it has a door: face it, open it, go in.
            if present and y == ky:
                return True, go[inn], 0.0
            # The key's room is known to have a corridor door: walk to its row.
            if present:
                return True, (go[1] if ky > y else go[3]), 0.0

            # Is it certain that the key's room has no corridor door? (order of the lists)
            ordk = (abs(y - ky) + 1) * 100 + ky * 10 + dx
            no_shut = True
            if v[22] == 1:
                if c2[0] == 2 or c2[0] == 4:
                    ord2 = (abs(y - c2[1]) + 1) * 100 + c2[1] * 10 + c2[0]
                elif v[25] == 1:
                    ord2 = (min(abs(y - c2[1] + 1), abs(y - c2[1] - 1)) + 3) * 100
                else:
                    ord2 = 9999
                no_shut = ord2 > ordk
            no_open = True
            if v[25] == 1 and (o1[0] == 2 or o1[0] == 4):
                no_open = (abs(y - o1[1]) + 1) * 100 + o1[1] * 10 + o1[0] > ordk
            absent = no_shut and no_open
            mid_known = ((dx, 3) in closed) or ((dx, 3) in opened)
            doorhere = y % 2 == 1 and pas[inn]

            if ky != 3:
                t = 3 if ky == 1 else 1
                u = 4 - t
                r = abs(y - ky)
                # Key's row has no door: go away along the corridor to the other rooms.
                if r == 0:
                    return True, go[u], 0.0
                # Beside the key's row: heading away means that it was looked at already.
                if r == 1 and (absent or h == u):
                    return True, go[u], 0.0
                # Beside the key's row, not looked at yet: look.
                if r == 1:
                    return True, go[t], 0.0
                # Middle row, key's row has no door: enter the middle room here.
                if r == 2 and doorhere and (absent or h == u or h == inn):
                    return True, go[inn], 0.0
                # Middle row, no door here either: go on to the far row.
                if r == 2 and (not doorhere) and (absent or h == u):
                    return True, go[u], 0.0
                # Middle row, key's row not looked at (or this room was a dead end): look there.
                if r == 2:
                    return True, go[t], 0.0
                # On the way to the far row, the middle room having no door.
                if r == 3 and h == u and not mid_known:
                    return True, go[u], 0.0
                # Otherwise towards the key's row.
                if r == 3:
                    return True, go[t], 0.0
                # Far row, reached because the others have no door: enter here.
                if r == 4 and doorhere and (h == u or h == inn) and not mid_known:
                    return True, go[inn], 0.0
                # Far row otherwise: towards the key's row.
                return True, go[t], 0.0

            # Key in the middle row, whose room has no corridor door (or it is not known yet).
            if y == 3:
                up_closed = (dx, 1) in closed
                down_closed = (dx, 5) in closed
                if up_closed and not down_closed:
                    w = 3
                elif down_closed and not up_closed:
                    w = 1
                elif h == 1:
                    w = 1
                else:
                    w = 3
                # Wall before the key: go to the room above or below that is still shut.
                return True, go[w], 0.0
            # Between the rows: keep the heading, it tells where we come from.
            if (y == 2 or y == 4) and (h == 1 or h == 3):
                return True, go[h], 0.0
            # Between the rows with a sideways heading: look at the key's row.
            if y == 2 or y == 4:
                return True, (go[1] if y < 3 else go[3]), 0.0
            t = 1 if y < 3 else 3
            # End row, reached from the key's row: enter the room here.
            if doorhere and (h == 4 - t or h == inn):
                return True, go[inn], 0.0
            # End row without a door, or out of a dead end: back past the key's row.
            return True, go[t], 0.0

        if same_side:
            t = 1 if ky > y else 3
            u = 4 - t
            # Door cell in the key's row: the key is right behind it.
            if x == dx and y == ky:
                return True, go[inn], 0.0
            # Door cell of another room: leave if heading out (dead end) and no shut door leads on.
            if x == dx and h == out and not ((kx, y + diry[t]) in closed):
                return True, go[out], 0.0
            # Door cell of another room: go in.
            if x == dx:
                return True, go[inn], 0.0
            if x == kx and y % 2 == 0:
                # Door between two rooms, key not next: heading away means dead end, go on.
                if abs(ky - y) > 1 and h == u:
                    return True, go[u], 0.0
                # Door between two rooms: towards the key (next to it this picks it up).
                return True, go[t], 0.0
            if x == kx and y != ky:
                # Room beside: a shut door leads towards the key, open it.
                if shut[t]:
                    return True, go[t], 0.0
                # Room beside: the open door leads towards the key.
                if isopen[t] and (abs(ky - y) == 2 or h == inn or h == t or not pas[out]):
                    return True, go[t], 0.0
                # No way to the key from here: leave to the corridor.
                if pas[out]:
                    return True, go[out], 0.0
                # No corridor door here: back through the other room.
                if pas[u]:
                    return True, go[u], 0.0

    # ---- leave the rooms towards the corridor ----
    if x != 3 and not same_side:
        o = 0 if x < 3 else 2
        # In a door cell beside the corridor: step out.
        if x == 2 or x == 4:
            return True, go[o], 0.0
        if y % 2 == 1:
            # In a room with a door to the corridor: open it if need be and go out.
            if pas[o]:
                return True, go[o], 0.0
            # In a room without one: keep the vertical heading while that way is open.
            if (h == 1 or h == 3) and isopen[h]:
                return True, go[h], 0.0
            # Otherwise take the open way down.
            if isopen[1]:
                return True, go[1], 0.0
            # Otherwise the open way up.
            if isopen[3]:
                return True, go[3], 0.0
            # All shut: open the door below.
            if shut[1]:
                return True, go[1], 0.0
            # All shut: open the door above.
            if shut[3]:
                return True, go[3], 0.0
        else:
            m = 1 if y < 3 else 3
            # In a door between two rooms: keep going in the heading.
            if (h == 1 or h == 3) and isopen[h]:
                return True, go[h], 0.0
            # Sideways heading: to the middle room, else to the other one.
            return True, (go[m] if isopen[m] else go[4 - m]), 0.0

    # Anything else is not known.
    return False, 0, 0.0
