"""A robot of one's own, from MJCF to a flown controller: hilbert-sim describe, list, collect, hilbert-train, hilbert-sim
fly. Every mistake in its files is told with its place.

usage: robots.py HILBERT_SIM HILBERT_TRAIN FOLDER-OF-MODELS
"""
import csv
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

SIM, TRAIN, MODELS = map(os.path.abspath, sys.argv[1:4])

# the cart-pole's equations: 10 N for a control of 1 on a cart of 1 kg, a pole of 0.2 kg and 0.3 m to its centre
PHYSICS = """\
states: [slider, hinge, slider_rate, hinge_rate]
controls: [push]
parameters: {cart: 1, pole: 0.2, length: 0.3, inertia: 0.006406, gear: 10, rail: 0.05, bearing: 0.01, g: 9.81}
expressions:
  c: cos(hinge)
  s: sin(hinge)
  along: gear * push - rail * slider_rate + pole * length * s * hinge_rate^2
  about: pole * g * length * s - bearing * hinge_rate
  total: cart + pole
  arm: inertia + pole * length^2
  lever: pole * length * c
  det: total * arm - lever^2
  slider: slider_rate
  hinge: hinge_rate
  slider_rate: (arm * along - lever * about) / det
  hinge_rate: (total * about - lever * along) / det
"""


def run(*command, code=0, folder=None):
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    assert done.returncode == code, f'{command}: exit code {done.returncode}, expected {code}\n{done.stdout}{done.stderr}'
    return done.stdout + done.stderr


class Robots(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.folder = os.path.join(self.temporary.name, 'robots')
        shutil.copytree(MODELS, self.folder)

    def tearDown(self):
        self.temporary.cleanup()

    def sim(self, *arguments, code=0):
        return run(SIM, *arguments, code=code, folder=self.folder)

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        with open(self.path(name), 'w') as out:
            out.write(text)

    def text(self, name):
        with open(self.path(name)) as file:
            return file.read()

    def test_from_model_to_flight(self):
        """The cart-pole: its pole, which stands upright, is held there while the cart goes elsewhere."""
        self.sim('describe', 'cartpole.xml')
        self.assertIn('cartpole.yaml exists', self.sim('describe', 'cartpole.xml', code=1))
        self.assertIn('hinge [rad]', self.sim('list', 'cartpole.xml'))
        for threads in '12':
            self.sim('collect', 'cartpole.xml', '-o', f'data{threads}.h5', '-f', '12', '-e', '4', '-n', '60', '-j', threads)
        with open(self.path('data1.h5'), 'rb') as one, open(self.path('data2.h5'), 'rb') as two:
            self.assertEqual(one.read(), two.read())
        self.write('physics.yaml', PHYSICS)
        run(TRAIN, '--data', 'data1.h5', '--average', 'physics.yaml', '--angles', 'hinge', '--output', 'cartpole.safetensors', '--steps',
            '60', '--nb', '3', '--hidden', '8,8', '--functions', '6', '--examples', '60', '--queries', '60', folder=self.folder)
        fly = ['fly', 'cartpole.xml', '--in-process', '--config', 'cartpole-control.yaml', '--seconds', '6', '--target', 'slider=0.5']
        said = self.sim(*fly, '--csv', 'flight.csv', '--set', 'cart_mass=1.2')
        with open(self.path('flight.csv')) as file:
            last = list(csv.DictReader(file))[-1]
        self.assertLess(abs(float(last['hinge'])), 0.1, said)
        self.assertLess(abs(float(last['slider']) - 0.5), 0.2, said)
        self.assertRegex(said, r'slider +0.5 ')
        # a change in flight is another flight from then on
        self.sim(*fly, '--csv', 'changed.csv', '--set', 'cart_mass=1.2', '--at', '2:cart_mass=0.8')
        one, other = self.text('flight.csv').splitlines(), self.text('changed.csv').splitlines()
        self.assertEqual(one[:100], other[:100])
        self.assertNotEqual(one[110], other[110])
        if shutil.which('gnuplot'):
            self.sim(*fly, '--plot', 'flight', '--seconds', '1')
            self.assertTrue(os.path.getsize(self.path('flight.svg')) > 1000)
        drawn = subprocess.run([SIM, *fly, '--render', 'frames', '--seconds', '1'], capture_output=True, text=True, cwd=self.folder)
        if 'cannot draw' in drawn.stderr:
            print('no OpenGL here: frames are not looked at', file=sys.stderr)
        else:
            self.assertEqual(drawn.returncode, 0, drawn.stderr)
            self.assertTrue(os.path.getsize(self.path('frames/flight.gif')) > 1000)

    def test_every_model_is_described_and_collected_from(self):
        for name, states in ('arm', 7), ('quadrotor', 13), ('legged', 36):
            said = self.sim('describe', f'{name}.xml')
            self.assertEqual('link.stl' in said, name == 'arm')
            said = self.sim('collect', f'{name}.xml', '-o', f'{name}.h5', '-f', '3', '-e', '2', '-n', '50')
            self.assertRegex(said, r'3 functions x 2 episodes, \d+ transitions')
            said = run(TRAIN, 'data', f'{name}.h5', folder=self.folder)
            listed = said[said.index('states '):said.index('controls ')]
            self.assertEqual(len(re.findall(r'^  \S', listed, re.M)), states)
            # what the first settings name is there
            settings = self.text(f'{name}-control.yaml')
            for state in re.findall(r'states: \[([^]]+)\]', settings):
                for word in state.split(', '):
                    self.assertRegex(listed, rf'(?m)^  {word} ')

    def test_what_stands_begins_above_the_ground(self):
        """Also where its pose floats by a hand's breadth, and where it moves in a plane."""
        self.write('higher.xml', self.text('legged.xml').replace('0 0 0.262 1', '0 0 0.3 1'))
        for name, height in ('planar', 'up'), ('legged', 'z'), ('higher', 'z'):
            self.sim('describe', f'{name}.xml')
            said = self.text(f'{name}.yaml')
            start, end = said[said.index('\nstart:'):said.index('\nend:')], said[said.index('\nend:'):said.index('\ntarget:')]
            self.assertNotRegex(start, rf'(?m)^  {height}:')
            self.assertRegex(end, rf'(?m)^  {height}: \[')
            self.assertRegex(end, r'(?m)^  (tilt|pitch): ')
            self.assertRegex(said, r'(?m)^  friction: ')
        self.sim('describe', 'quadrotor.xml')
        self.assertRegex(self.text('quadrotor.yaml'), r'(?m)^  z: \[')

    def test_the_target_is_where_it_stands(self):
        """Not where it is drawn: 15 mm within the ground, or a hand's breadth above it."""
        self.write('higher.xml', self.text('legged.xml').replace('0 0 0.262 1', '0 0 0.3 1'))
        for name in 'legged', 'higher':
            self.sim('describe', f'{name}.xml')
            for text in self.text(f'{name}.yaml'), self.text(f'{name}-control.yaml'):
                target = text[text.index('\ntarget:'):]
                # two bones of 0.15 m at 0.5 rad from upright, and a foot's radius, less what its actuators give way
                self.assertAlmostEqual(float(re.search(r'(?m)^  z: (.*)', target)[1]), 0.2767, delta=1e-3)
                self.assertAlmostEqual(float(re.search(r'(?m)^  fl_knee: (.*)', target)[1]), -1.016, delta=5e-3)

    def test_motors_called_as_their_joints(self):
        """Columns of a flight's table have names of their own."""
        self.write('same.xml', self.text('cartpole.xml').replace('name="push"', 'name="slider"'))
        self.sim('describe', 'same.xml')
        self.assertIn('\n  slider_command: {actuator: slider, ', self.text('same.yaml'))
        self.assertIn('controls: [slider_command]', self.text('same-control.yaml'))

    def test_what_flies_begins_above_what_ends_it(self):
        """Also where its pose is low: a start below would be a crash of its own."""
        self.write('low.xml', self.text('quadrotor.xml').replace('name="frame" pos="0 0 1"', 'name="frame" pos="0 0 0.3"'))
        self.sim('describe', 'low.xml')
        said = self.text('low.yaml')
        start, end = (re.search(rf'(?ms)^{section}:.*?^  z: \[([^,]+), ', said)[1] for section in ('start', 'end'))
        self.assertLess(float(end), float(start))
        self.assertLess(float(start), 0.3)
        self.sim('list', 'low.xml')

    def test_mistakes_in_the_yaml(self):
        self.sim('describe', 'cartpole.xml')
        good = self.text('cartpole.yaml')
        for old, new, expected in [
            ('position: hinge', 'position: hing', r"cartpole.yaml:13:21: hinge: the model has no joint 'hing'; it has: slider, hinge"),
            ('velocity: hinge', 'speed: hinge', r"'speed' is none of position, velocity"),
            ('{position: slider, unit: m}', '{unit: m}', r'expected one of position, velocity'),
            ('actuator: push', 'actuator: pull', r"no actuator 'pull'; it has: push"),
            ('  push: {', '  slider: {', r"controls: 'slider' is a state, too: expected a name of its own"),
            ('range: [-1, 1]', 'range: [-2, 1]', r"range: expected one within the model's -1 to 1"),
            ('trim: 0,', 'trim: five,', r"'five' is not a number from -1 to 1"),
            ('attribute: mass, scale: [0.7, 1.3]', 'attribute: weight, scale: [0.7, 1.3]', r'attribute: expected one of mass, inertia'),
            ('scale: [0.7, 1.3]', 'scale: [1.3, 0.7]', r'expected \[low, high\]: two numbers, the lower one first'),
            ('scale: [0.8, 1.2]', 'range: [0.8, 1.2]', r'strength is several numbers: give scale'),
            ('  hinge: [-0.3, 0.3]', '  hinges: [-0.3, 0.3]', r"start: there is no state 'hinges' under states"),
            ('dt: 0.02 ', 'dt: fast ', r"cartpole.yaml:8:5: dt: 'fast' is not a number"),
            ('dt: 0.02 ', 'pose: home\ndt: 0.02 ', r"the model has no keyframe 'home'; it has: none"),
            ('end: ', 'ends: ', r"'ends' is none of name, help, dt"),
            ('{noise: 0.5, time: 0.1}', '{noise: 0.5, hold: tight}', r'hold: expected none, pd or lqr'),
            ('{noise: 0.5, time: 0.1}', '{noise: 0.5, hold: pd}', r'hold: pd wants kp and kd'),
            ('controls:', 'controls: [', r'cartpole.yaml:\d+:\d+: '),
            ('  slider: 0\n', '  slider: 0\n  tilt: 1\n', r"target: there is no state 'tilt'"),
            ('  {}\n', '  {tilt: 1}\n', r'end: the robot has no free joint'),
            ('  {}\n', '  {hinge: [-0.2, 1]}\n', r"cartpole.yaml:\d+:\d+: hinge: end: a start at -0.3 is over at once; expected .* -0.3 to 0.3"),
        ]:
            self.assertIn(old, good)
            self.write('cartpole.yaml', good.replace(old, new, 1))
            self.assertRegex(self.sim('list', 'cartpole.xml', code=1), expected)
        os.remove(self.path('cartpole.yaml'))
        self.assertRegex(self.sim('list', 'cartpole.xml', code=1), r'cartpole.yaml: No such file.*hilbert-sim describe')

    def test_mistakes_in_the_model(self):
        model = self.text('cartpole.xml')
        for old, new, expected in [
            ('mass="1"', 'weight="1"', r"bad.xml:13: .*unrecognized attribute: 'weight'"),
            ('</body>', '', r'bad.xml:\d+: XML parse error'),
            ('joint="slider"', 'joint="slide"', r"bad.xml:21: .*unknown transmission target 'slide'"),
            ('integrator="RK4"', 'integrator="later"', r"bad.xml:\d+: .*invalid keyword: 'later'.*\(this is MuJoCo [\d.]+\)"),
            ('timestep="0.005"', 'timestep="-1"', r'bad.xml: option timestep is -1 s, expected more than 0'),
            ('gear="10"', 'gear="nan"', r"bad.xml: the acceleration of joint 'slider' is not finite"),
        ]:
            self.assertIn(old, model)
            self.write('bad.xml', model.replace(old, new, 1))
            self.assertRegex(self.sim('describe', 'bad.xml', code=1), expected)
        # of a file that is included, too
        self.write('arm_parts.xml', self.text('arm_parts.xml').replace('width="8"', 'widht="8"'))
        self.assertRegex(self.sim('describe', 'arm.xml', code=1), r"arm_parts.xml:6: .*'widht'")
        self.assertRegex(self.sim('describe', 'none.xml', code=1), r'none.xml: No such file')
        self.assertRegex(self.sim('describe', 'robot.urdf', code=2), r'whose name ends in .xml')
        self.write('still.xml', '<mujoco><worldbody><geom size="1"/></worldbody></mujoco>')
        self.assertRegex(self.sim('describe', 'still.xml', code=1), r'no joints: there is nothing that moves')


if __name__ == '__main__':
    unittest.main(argv=sys.argv[:1])
