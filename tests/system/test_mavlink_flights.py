"""config/px4.yaml as it is, through the real bridge and the real daemon: hover, steps, a circle, a mass that changes in
flight, losses and delays. Time passes slower for all processes alike (slow_clock.c), so that a busy machine does not decide.

usage: test_mavlink_flights.py BUILD_ROOT SOURCE_ROOT
"""
import math
import sys
import tempfile
import unittest

from test_mavlink import Flight

SLOW = 3
HOME = (0, 0, 2)


def furthest(rows, point=HOME):
    return max(math.dist(t.position, point) for t in rows)


def rates(rows):
    return sum(t.setpoint == "rates" for t in rows) / len(rows)


class Shipped(unittest.TestCase):
    def assert_flown(self, flight, rows):
        """A late reply or two on a busy machine may pass; what is judged is flown by plans, not by the autopilot."""
        self.assertTrue(all(t.mode == "offboard" for t in rows), flight.said())
        self.assertGreater(rates(rows), 0.8, flight.said())

    def test_it_is_held_through_steps_of_mass(self):
        for step in (1.4, 0.6):
            with Flight(peer=[f"seed={100 * step:.0f}"], slow=SLOW, as_shipped=True) as flight:
                flight.engage()
                flight.pass_time(2)
                rows = flight.pass_time(2)
                self.assertLess(furthest(rows), 0.3, flight.said())
                flight.tell(f"load={step}")
                peak = furthest(flight.pass_time(2))
                rows = flight.pass_time(3)
                print(f"mass x {step}: {peak:.2f} m at most, {furthest(rows):.2f} m from 2 s on")
                self.assertLess(peak, 0.6, flight.said())
                self.assertLess(furthest(rows), 0.3, flight.said())
                self.assert_flown(flight, rows)

    def test_vehicles_of_other_weight_are_taken_over_without_a_jump(self):
        # hover at thrust 0.38 and 0.73, where the nominal model has 0.49: known before, from what the autopilot commands
        for load in (0.8, 1.5):
            with Flight(peer=[f"load={load}", f"seed={100 * load:.0f}"], slow=SLOW, as_shipped=True) as flight:
                flight.ready()
                flight.pass_time(3)
                flight.engage()
                rows = flight.pass_time(2)
                print(f"load {load}: {furthest(rows):.2f} m in the first two seconds")
                self.assertLess(furthest(rows), 0.3, flight.said())
                self.assert_flown(flight, rows)

    def test_steps(self):
        with Flight(peer=["load=1.2", "seed=3"], slow=SLOW, as_shipped=True) as flight:
            flight.engage()
            for x, y, z in ((4, 0, 2), (4, 2, 3), (0, 0, 2)):
                flight.target(x=x, y=y, z=z)
                way = flight.pass_time(5)
                rows = flight.pass_time(1)
                print(f"to {x} {y} {z}: {furthest(rows, (x, y, z)):.2f} m after 5 s")
                self.assertLess(furthest(rows, (x, y, z)), 0.35, flight.said())
                self.assertLess(max(t.tilt for t in way), 0.7, flight.said())
                self.assert_flown(flight, way)

    def test_a_circle_with_a_step_of_mass(self):
        radius, corners = 2, 48
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            for i in range(3 * corners):
                angle = 2 * math.pi * i / corners
                file.write(f"{radius * math.sin(angle):.4f} {radius - radius * math.cos(angle):.4f} 2\n")
            file.flush()
            with Flight(peer=["seed=4"], options=["--waypoints", file.name], slow=SLOW, as_shipped=True,
                        settings="waypoint_speed: 1.5\nwaypoint_radius: 1\n") as flight:
                def off(t):
                    x, y, z = t.position
                    return math.hypot(math.hypot(x, y - radius) - radius, z - 2)
                flight.engage()
                flight.pass_time(3)
                flight.tell("load=1.4")
                flight.pass_time(2)
                rows = flight.pass_time(5)
                print(f"circle: {max(map(off, rows)):.2f} m at most from 2 s after the step on")
                self.assertLess(max(map(off, rows)), 0.4, flight.said())
                self.assertGreater(max(t.position[1] for t in rows) - min(t.position[1] for t in rows), 1.5)
                self.assert_flown(flight, rows)

    def test_losses_and_delays(self):
        with Flight(peer=["loss=0.03", "delay=0.012", "age=0.013", "wind_x=1", "seed=5"], slow=SLOW, as_shipped=True) as flight:
            flight.engage()
            flight.pass_time(3)
            rows = flight.pass_time(4)
            print(f"losses and delays: {furthest(rows):.2f} m at most")
            self.assertLess(furthest(rows), 0.4, flight.said())
            self.assertTrue(all(t.mode == "offboard" for t in rows), flight.said())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
