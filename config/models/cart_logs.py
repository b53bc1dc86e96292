#!/usr/bin/python3
"""Logs of 60 simulated carts on a rail, as CSV: what config/models/cart.safetensors is trained on.

usage: cart_logs.py FOLDER [FIRST]

A cart of mass m rolls with drag d on a rail that is inclined by a: v' = (force - d v) / m + a. The force is held over
each period of 0.05 s. The same files every time; FIRST (0) is the number of the first cart, another one for other carts.
"""
import os
import random
import sys

DT, CARTS, ROWS, SUBSTEPS = 0.05, 60, 200, 50


def main(folder, first):
    os.makedirs(folder, exist_ok=True)
    for cart in range(first, first + CARTS):
        draw = random.Random(cart)
        mass, drag, incline = draw.uniform(0.5, 2), draw.uniform(0, 1), draw.uniform(-0.5, 0.5)
        position, velocity, force = draw.uniform(-2, 2), draw.uniform(-2, 2), 0.0
        with open(f"{folder}/cart{cart:02}.csv", "w") as log:
            log.write("time_s,position_m,velocity_m_s,force_n\n")
            for row in range(ROWS):
                if row % 5 == 0:
                    # back to the middle, roughly, and around it at random
                    force = max(-2.0, min(2.0, draw.uniform(-2, 2) - 0.3 * position - 0.3 * velocity))
                log.write(f"{row * DT:.2f},{position:.9f},{velocity:.9f},{force:.6f}\n")
                for _ in range(SUBSTEPS):
                    velocity += DT / SUBSTEPS * ((force - drag * velocity) / mass + incline)
                    position += DT / SUBSTEPS * velocity


if __name__ == "__main__":
    if not 2 <= len(sys.argv) <= 3 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 0)
