"""config/px4.yaml as it is, through the real bridge and the real daemon: hover, steps, a circle, a mass that changes in
flight, losses and delays. Time is virtual, so that a busy machine does not decide.

usage: test_mavlink_flights.py BUILD_ROOT SOURCE_ROOT [TEST...]
"""
import math
import sys
import tempfile
import unittest

from test_mavlink import Flight

HOME = (0, 0, 2)
RADIUS = 2


def write_circle(file, laps, corners=48):
    """From HOME to the west and back, waypoint by waypoint."""
    for i in range(laps * corners + 1):
        angle = 2 * math.pi * i / corners
        file.write(f"{RADIUS * math.sin(angle):.4f} {RADIUS - RADIUS * math.cos(angle):.4f} 2\n")
    file.flush()


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
            with Flight(peer=[f"seed={100 * step:.0f}"], as_shipped=True) as flight:
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
            with Flight(peer=[f"load={load}", f"seed={100 * load:.0f}"], as_shipped=True) as flight:
                flight.ready()
                flight.pass_time(3)
                flight.engage()
                rows = flight.pass_time(2)
                print(f"load {load}: {furthest(rows):.2f} m in the first two seconds")
                self.assertLess(furthest(rows), 0.3, flight.said())
                self.assert_flown(flight, rows)

    def test_steps(self):
        with Flight(peer=["load=1.2", "seed=3"], as_shipped=True) as flight:
            flight.engage()
            for x, y, z in ((4, 0, 2), (4, 2, 3), (0, 0, 2)):
                flight.target(x=x, y=y, z=z)
                way = flight.pass_time(5)
                rows = flight.pass_time(1)
                print(f"to {x} {y} {z}: {furthest(rows, (x, y, z)):.2f} m after 5 s")
                self.assertLess(furthest(rows, (x, y, z)), 0.35, flight.said())
                self.assertLess(max(t.tilt for t in way), 0.7, flight.said())
                self.assert_flown(flight, way)

    def test_a_long_way_at_the_speed_that_is_allowed(self):
        with Flight(peer=["seed=6"], as_shipped=True) as flight:
            flight.engage()
            flight.target(x=10, y=0, z=2)
            way = flight.pass_time(7)
            fastest = max(t.velocity[0] for t in way)
            print(f"10 m: {furthest(way[-10:], (10, 0, 2)):.2f} m after 7 s, {fastest:.1f} m/s at most")
            self.assertLess(furthest(way[-10:], (10, 0, 2)), 0.5, flight.said())
            self.assertGreater(fastest, 2.5, "the limit of 3 m/s was not come near to")
            self.assert_flown(flight, way)

    def test_a_wind_that_needs_more_than_is_allowed_is_handed_over(self):
        with Flight(peer=["seed=7"], as_shipped=True) as flight:
            flight.engage()
            flight.pass_time(1)
            flight.tell("wind_x=6.5")
            begin = flight.now().time
            flight.wait(lambda: flight.now().mode == "hold" or flight.now().time > begin + 8, "the end of it")
            flown = [t for t in flight.truth if t.time > begin and t.mode == "offboard"]
            print(f"wind of 6.5 m/s: handed over after {len(flown) * 0.02:.1f} s, {furthest(flown):.1f} m off")
            self.assertEqual(flight.now().mode, "hold", flight.said())
            self.assertIn("handing-over: plans break a limit of hilbertd's", flight.said())

    def test_a_circle_is_flown_round(self):
        speed = 2  # at which the look-ahead pulls it past waypoints
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            write_circle(file, laps=1)
            with Flight(peer=["seed=8"], as_shipped=True,
                        settings=f"waypoints: {file.name}\nwaypoint_speed: {speed}\n") as flight:
                flight.engage()
                rows = flight.pass_time(1.3 * 2 * math.pi * RADIUS / speed + 1)
                angle = [math.atan2(t.position[0], RADIUS - t.position[1]) for t in rows]
                turned = sum(math.remainder(b - a, 2 * math.pi) for a, b in zip(angle, angle[1:])) / (2 * math.pi)
                print(f"circle at {speed} m/s: {turned:.2f} laps")
                self.assertGreater(turned, 0.95, flight.said())
                self.assert_flown(flight, rows)

    def test_a_square_is_not_given_up(self):
        # an autopilot's estimate is off for a second at a time: no reason to doubt its channels
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            file.write("0 0 2\n4 0 2\n4 4 2\n0 4 2\n")
            file.flush()
            with Flight(peer=["seed=1"], as_shipped=True,
                        settings=f"waypoints: {file.name}\nwaypoint_speed: 2\n") as flight:
                flight.engage()
                self.assert_flown(flight, flight.pass_time(4))
                self.assertIn(" 0 untrusted", flight.said().splitlines()[-1])

    def test_a_circle_with_a_step_of_mass(self):
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            write_circle(file, laps=3)
            with Flight(peer=["seed=4"], as_shipped=True,
                        settings=f"waypoints: {file.name}\nwaypoint_speed: 1.5\n") as flight:
                def off(t):
                    x, y, z = t.position
                    return math.hypot(math.hypot(x, y - RADIUS) - RADIUS, z - 2)
                flight.engage()
                flight.pass_time(3)
                flight.tell("load=1.4")
                flight.pass_time(2)
                rows = flight.pass_time(5)
                print(f"circle: {max(map(off, rows)):.2f} m at most from 2 s after the step on")
                self.assertLess(max(map(off, rows)), 0.4, flight.said())
                self.assertGreater(max(t.position[1] for t in rows) - min(t.position[1] for t in rows), 1.5, flight.said())
                self.assert_flown(flight, rows)

    def test_losses_and_delays(self):
        with Flight(peer=["loss=0.03", "delay=0.012", "age=0.013", "wind_x=1", "seed=5"], as_shipped=True) as flight:
            flight.engage()
            # without waypoints the bridge holds the place where it was engaged, which the wind and the losses decide
            place = flight.now().position
            flight.pass_time(3)
            rows = flight.pass_time(4)
            print(f"losses and delays: {furthest(rows, place):.2f} m at most")
            self.assertLess(furthest(rows, place), 0.4, flight.said())
            self.assertTrue(all(t.mode == "offboard" for t in rows), flight.said())


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
