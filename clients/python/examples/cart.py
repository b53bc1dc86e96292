#!/usr/bin/python3
"""A flight stack in 30 lines: a cart on a rail (position, velocity; force) that hilbertd brings to x = 1.

Nobody tells the daemon its mass and its drag. The daemon runs with config/cart.yaml.
usage: cart.py [FOLDER of the daemon's sockets]
"""
import sys
import time

import hilbert

DT, MASS, DRAG = 0.05, 1.5, 0.5

with hilbert.Client(sys.argv[1] if len(sys.argv) > 1 else "/run/hilbertd", timeout=DT) as daemon:
    position, velocity, force, answered = 0.0, 0.0, [0.0], 0
    for k in range(120):
        now = k * int(1e6 * DT)
        try:
            reply = daemon.request(now, [position, velocity], target=[1.0, 0.0])
            if reply.action:
                force, answered = reply.action, answered + 1
            else:
                print(f"cart.py: {reply.status.name}: {reply.detail}", file=sys.stderr)
        except hilbert.Error as error:
            print("cart.py:", error, file=sys.stderr)
        daemon.publish(now, [position, velocity], force)  # the force from this moment on
        velocity += DT * (force[0] - DRAG * velocity) / MASS
        position += DT * velocity
        time.sleep(DT)
    print(f"{answered} actions; the cart is at {position:.3f}")
    sys.exit(0 if answered and abs(position - 1) < 0.1 else 1)
