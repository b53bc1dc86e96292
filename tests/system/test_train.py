"""hilbert-train and hilbert-eval as programs: CSV logs to a data set, a run that is interrupted and resumed, errors
with their exit codes, evaluation as JSON, pruning, pictures.

usage: test_train.py HILBERT_TRAIN HILBERT_EVAL
"""
import json
import math
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import unittest

from made_flights import write_flights
from programs import run
from waiting import wait_until

TRAIN, EVAL = sys.argv[1:3]
TINY = ['--nb', '3', '--hidden', '10,10', '--functions', '5', '--examples', '30', '--queries', '30', '--learning-rate', '0.01']


def read_log(path):
    with open(path) as log:
        return [json.loads(line) for line in log]


def write_logs(folder, files=8, rows=120):
    """Oscillators x'' = u - k x - d x' with their own k and d, as a logger would write them: times in ms, text units."""
    names = []
    for n in range(files):
        draw = random.Random(n)
        k, d, x, v, t = draw.uniform(0.5, 2), draw.uniform(0.1, 0.5), draw.gauss(0, 1), draw.gauss(0, 1), 0.0
        names.append(os.path.join(folder, f'log{n}.csv'))
        with open(names[-1], 'w') as out:
            out.write('stamp,pos,ignored,speed,force\n')
            for _ in range(rows):
                u = draw.uniform(-1, 1)
                out.write(f'{1000 * t:.6f},{x:.9f},0,{v:.9f},{u:.9f}\n')
                for _ in range(100):
                    x, v = x + 0.001 * v, v + 0.001 * (u - k * x - d * v)
                t += 0.1
    return names


def tensor(path, name):
    """The bytes of a tensor of a safetensors file."""
    with open(path, 'rb') as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), 'little')))
        start, end = header[name]['data_offsets']
        file.seek(start, os.SEEK_CUR)
        return file.read(end - start)


class Train(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.folder = cls.temporary.name
        cls.data = cls.path('data.h5')
        run(TRAIN, 'import-csv', '--output', cls.data, '--time', 'stamp', '--time-scale', '1e-3', '--states',
            'x=pos,v=speed', '--controls', 'u=force', '--bounds', '-1..1', '--trim', '0', '--plant', 'oscillator', *write_logs(cls.folder))
        cls.model = cls.path('model')
        cls.trained = run(TRAIN, '--data', cls.data, '--output', cls.model, '--steps', '400', '--decay', 'cosine',
                          '--validate-every', '100', *TINY)

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    @classmethod
    def path(cls, name):
        return os.path.join(cls.folder, name)

    def test_a_model_is_not_overwritten(self):
        with open(self.model, 'rb') as file:
            before = file.read()
        said = run(TRAIN, '--data', self.data, '--output', self.model, '--steps', '3', *TINY, code=1).stderr
        self.assertIn('model exists: name another --output, or add --force', said)
        with open(self.model, 'rb') as file:
            self.assertEqual(file.read(), before)
        other = self.path('overwritten')
        run(TRAIN, '--data', self.data, '--output', other, '--steps', '3', *TINY)
        run(TRAIN, '--force', '--data', self.data, '--output', other, '--steps', '4', *TINY)
        self.assertEqual(read_log(other + '.jsonl')[-2]['step'], 3)

    def test_one_function_gives_a_warning(self):
        one = self.path('one.h5')
        run(TRAIN, 'import-csv', '--output', one, '--states', 'x=pos', '--dt', '0.1', self.path('log0.csv'))
        said = run(TRAIN, '--data', one, '--output', self.path('one'), '--steps', '3', *TINY).stderr
        self.assertIn('warning: there is one function to train on', said)
        self.assertIn('warning: 7 functions to train on are few', self.trained.stderr)
        self.assertNotIn('one function', self.trained.stderr)

    def test_a_model_goes_on_with_its_actuators(self):
        first, next_one = self.path('lagging'), self.path('going-on')
        run(TRAIN, '--data', self.data, '--output', first, '--steps', '5', '--lag', '0.1', *TINY)
        said = run(TRAIN, '--data', self.data, '--output', next_one, '--steps', '5', '--initial', first, *TINY, code=1).stderr
        self.assertIn('that of', said)
        run(TRAIN, '--data', self.data, '--output', next_one, '--steps', '5', '--initial', first, '--examples', '20')
        plain, acting = (run(EVAL, 'predict', next_one, '--data', self.data, '--json', '--examples', '20', '--steps', '5', *more).stdout
                         for more in ((), ('--commands',)))
        self.assertNotEqual(plain, acting)
        self.assertIn('lag: ', run(TRAIN, '--data', self.data, '--output', self.path('bad'), '--lag', '1,2,3', *TINY, code=1).stderr)

    def test_imports_say_what_came_of_them(self):
        logs = [[self.path(f'{vehicle}/{flight}.csv') for flight in 'ab'] for vehicle in ('red', 'blue')]
        for vehicle in logs:
            os.mkdir(os.path.dirname(vehicle[0]))
            for path in vehicle:
                with open(path, 'w') as out:
                    out.write('a_column_with_a_rather_long_na,u\n' + ''.join(f'{k},{0.1 * k}\n' for k in range(9)))
        base = [TRAIN, 'import-csv', '--output', self.path('said.h5'), '--dt', '0.1', '--states',
                'a_column_with_a_rather_long_na[rad/s]', '--controls', 'u']
        done = run(*base, '--functions', 'folder', *logs[0], *logs[1])
        self.assertIn('4 episodes of 2 functions from 4 files', done.stdout)
        self.assertRegex(done.stdout, r'a_column_with_a_rather_long_na +rad/s +0 +8 ')
        self.assertIn('no --bounds: what was logged of u, 0..0.7', done.stderr)
        self.assertIn('no --trim: the mean of u, 0.35, becomes its safe action', done.stderr)
        with open(self.path('said.h5'), 'rb') as file:
            before = file.read()
        self.assertIn('said.h5 exists: name another --output, or add --force',
                      run(*base, '--functions', 'one', *logs[0], code=1).stderr)
        with open(self.path('said.h5'), 'rb') as file:
            self.assertEqual(file.read(), before)
        done = run(*base, '--force', '--functions', 'one', '--bounds', '-1..1', '--trim', 'u=0.5', *logs[0], *logs[1])
        self.assertIn('4 episodes of 1 functions', done.stdout)
        self.assertRegex(done.stdout, r'\n  u +-1 +1 +0\.5\n')
        self.assertEqual(done.stderr, '')
        self.assertIn("'all' is not one of file, folder, one", run(*base, '--functions', 'all', *logs[0], code=2).stderr)

    def test_data_is_described(self):
        text = run(TRAIN, 'data', self.data).stdout
        self.assertIn('oscillator', text)
        self.assertIn('functions    8', text)
        self.assertIn('sizes of a shared model, unless told otherwise: --nb 8 --hidden 64,64,64\nfunctions are few (8)', text)
        self.assertIn('transitions of a function are few (119 on average)', text)

    def test_run_says_what_it_did(self):
        self.assertIn('400 steps', self.trained.stderr)
        self.assertIn('peak memory', self.trained.stderr)
        lines = read_log(self.model + '.jsonl')
        self.assertEqual(lines[0]['step'], 0)
        # the prior comes after the last step
        self.assertTrue(lines[-1]['prior'])
        self.assertEqual(lines.pop()['step'], 400)
        self.assertEqual(lines[-1]['step'], 399)
        self.assertLess(lines[-1]['query'], 0.1 * lines[0]['query'])
        self.assertIn('ten_step', lines[-1])
        self.assertFalse(os.path.exists(self.model + '.checkpoint'))

    def test_interrupt_and_resume(self):
        other = self.path('interrupted')
        process = subprocess.Popen([TRAIN, '--data', self.data, '--output', other, '--steps', '400', '--decay', 'cosine',
                                    '--threads', '1', '--checkpoint-every', '0', '--validate-every', '100', *TINY],
                                   stderr=subprocess.PIPE, text=True)
        wait_until(lambda: os.path.exists(other + '.checkpoint') or process.poll() is not None, 'a checkpoint')
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
        if process.returncode == 1:
            self.assertIn("continue with: hilbert-train --resume '" + other + ".checkpoint'", errors)
            # a fresh start over it is refused, another seed too
            self.assertIn('--resume', run(TRAIN, '--data', self.data, '--output', other, code=1).stderr)
            self.assertIn('seed', run(TRAIN, '--resume', other + '.checkpoint', '--seed', '9', code=2).stderr)
            run(TRAIN, '--resume', other + '.checkpoint', '--threads', '2')
        with open(self.model, 'rb') as a, open(other, 'rb') as b:
            self.assertEqual(a.read(), b.read())
        steps = [line['step'] for line in read_log(other + '.jsonl')]
        self.assertEqual(steps, sorted(set(steps)))

    def test_a_fifo_is_no_log(self):
        fifo = self.path('fifo')
        os.mkfifo(fifo)
        for command in (['import', '--output', self.path('none.h5'), fifo], ['data', fifo], ['--config', fifo],
                        ['import-csv', '--output', self.path('none.h5'), '--states', 'x', fifo]):
            done = subprocess.run([TRAIN, *command], capture_output=True, text=True, timeout=60)
            self.assertIn(done.returncode, (1, 2))
            self.assertIn(fifo, done.stderr)

    def test_stream(self):
        whole, streamed = self.path('whole'), self.path('streamed')
        for output, stream in (whole, 'no'), (streamed, 'yes'):
            run(TRAIN, '--data', self.data, '--output', output, '--steps', '5', '--stream', stream, *TINY)
        with open(whole, 'rb') as a, open(streamed, 'rb') as b:
            self.assertEqual(a.read(), b.read())

    def test_the_last_pass_can_be_interrupted(self):
        """When the steps are done, a prior is made: that, too, is left on a signal and gone on with to the same bytes."""
        other = self.path('closing')
        options = ['--data', self.data, '--steps', '400', '--decay', 'cosine', '--validate-every', '100', '--threads', '1',
                   *TINY]
        process = subprocess.Popen([TRAIN, *options, '--checkpoint-every', '1000', '--output', other],
                                   stderr=subprocess.PIPE, text=True)
        wait_until(lambda: os.path.exists(other + '.checkpoint') or process.poll() is not None, 'a checkpoint', every=0.001)
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=60)
        if process.returncode:
            self.assertIn('stopped after step 400', errors)
            self.assertFalse(os.path.exists(other))
            run(TRAIN, '--resume', other + '.checkpoint')
        with open(self.model, 'rb') as a, open(other, 'rb') as b:
            self.assertEqual(a.read(), b.read())

    def test_force_starts_over(self):
        """A run that diverged or was killed leaves its last checkpoint; --force is the way past it."""
        other = self.path('diverged')
        options = [TRAIN, '--data', self.data, '--output', other, *TINY]
        process = subprocess.Popen([*options, '--steps', '1000000', '--checkpoint-every', '0'], stderr=subprocess.DEVNULL)
        wait_until(lambda: os.path.exists(other + '.checkpoint') or process.poll() is not None, 'a checkpoint')
        process.kill()
        process.wait()
        self.assertIn('--force', run(*options, '--steps', '4', code=1).stderr)
        run(*options, '--steps', '4', '--force')
        self.assertFalse(os.path.exists(other + '.checkpoint'))

    def test_predict(self):
        name = self.path('curves')
        done = run(EVAL, 'predict', self.model, '--data', self.data, '--examples', '40', '--steps', '20', '--json',
                   '--plot', name)
        result = json.loads(done.stdout)
        model = result['models'][0]
        self.assertEqual(model['row'], 'shared')
        adapted, without = model['adapted'], model['without_coefficients']
        self.assertEqual(len(adapted['median']), 20)
        self.assertLess(adapted['median'][-1], 0.5 * without['median'][-1])
        for lower, median, upper in zip(adapted['lower'], adapted['median'], adapted['upper']):
            self.assertTrue(lower <= median <= upper)
        self.assertEqual([c['examples'] for c in model['by_examples']], [5, 10, 20, 40])
        self.assertLess(model['by_examples'][-1]['one_step'], model['by_examples'][0]['one_step'])
        again = run(EVAL, 'predict', self.model, '--data', self.data, '--examples', '40', '--steps', '20', '--json',
                    '--threads', '1')
        self.assertEqual(json.loads(again.stdout), result)
        self.assertIn('with c = 0', run(EVAL, 'predict', self.model, '--data', self.data, '--successive').stdout)
        with open(name + '.svg') as svg, open(name + '.png', 'rb') as png:
            self.assertIn('<svg', svg.read(1000))
            self.assertEqual(png.read(4), b'\x89PNG')

    def test_verdict(self):
        self.assertIn('verdict, functions that were not trained on', self.trained.stderr)
        self.assertRegex(self.trained.stderr, r'x: adapting (pays|brings little|HURTS): after 10 steps [0-9.e-]+ ,? ?[0-9.e-]+ without')

    def test_predictions_in_physical_units(self):
        """As a daemon would make them: online, this vehicle's coefficients are better than none."""
        table = run(EVAL, 'predict', self.model, '--data', self.data, '--rollouts', '2').stdout
        for row in ('c = 0', 'prior mean', 'after 1 s', 'after 5 s', 'online'):
            self.assertRegex(table, rf'\n  {row} +\| +[0-9.e-]+ ')
        self.assertRegex(table, r'90 % bands hold [0-9.]+ % after 1 step')
        online = json.loads(run(EVAL, 'predict', self.model, '--data', self.data, '--rollouts', '2', '--json').stdout)
        online = online['models'][0]['online']
        self.assertEqual(online['steps'], [1, 10, 30, 50])
        self.assertLess(online['error']['online']['x'][1], online['error']['c = 0']['x'][1])
        self.assertGreater(online['starts'], 50)
        self.assertTrue(0.6 < online['coverage'][0] <= 1)

    def test_real_flights_are_not_made_up(self):
        with tempfile.TemporaryDirectory() as folder:
            said = run(EVAL, 'real', '--flights', folder, '--folder', folder + '/out', 'nano', code=1).stderr
            self.assertIn('there are no flights', said)
            self.assertIn('no experiment', run(EVAL, 'real', 'zeppelin', code=2).stderr)

    def test_a_log_is_described_and_imported(self):
        described = run(TRAIN, 'describe', self.path('log0.csv')).stdout
        self.assertIn('guessed from', described)
        # nothing in it looks like a flying vehicle: columns are listed to be chosen from
        described = "time: 'stamp * 1e-3'\nstates: {x: pos, v: speed}\ncontrols: {u: force}\n"
        with open(self.path('log.yaml'), 'w') as out:
            out.write(described)
        done = run(TRAIN, 'import', '--map', self.path('log.yaml'), '--output', self.path('mapped.h5'), self.path('log0.csv'),
                   self.path('log1.csv'))
        self.assertRegex(done.stdout, r'log1.csv: function 1, 1 episodes, 11.[0-9] s; of 120 rows all are good')

    def test_processor_time(self):
        def steps(*options):
            said = run(TRAIN, '--data', self.data, '--output', self.path('timed'), '--force', *TINY, *options).stderr
            return int(re.search(r'of processor time: --steps (\d+)', said).group(1))

        self.assertGreater(steps('--cpu-seconds', '1'), 1)
        # the prior of so many coefficients takes longer than that: steps are made all the same
        self.assertGreater(steps('--cpu-seconds', '1', '--nb', '250', '--coefficients', 'per_state'), 1)

    def test_prior(self):
        self.assertIn('with the prior', self.trained.stderr)
        other = self.path('other')
        run(TRAIN, 'prior', self.model, '--data', self.data, '--output', other, '--examples', '100', '--threads', '2')
        again = self.path('again')
        run(TRAIN, 'prior', self.model, '--data', self.data, '--output', again, '--examples', '100', '--threads', '1')
        with open(other, 'rb') as a, open(again, 'rb') as b:
            self.assertEqual(a.read(), b.read())
        # what such a model leaves of functions that were held back is measured anew with the prior
        self.assertNotEqual(tensor(self.model, 'prior.reference_noise'), tensor(other, 'prior.reference_noise'))
        # alone it leaves the prior as it is: here that of fewer examples
        alone = self.path('alone')
        run(TRAIN, 'prior', other, '--data', self.data, '--output', alone, '--reference', '--seed', '1', '--threads', '1')
        for name in ('mean', 'covariance', 'noise', 'reference_noise'):
            same = tensor(other, f'prior.{name}') == tensor(alone, f'prior.{name}')
            self.assertEqual(same, name != 'reference_noise', name)
        for model in (self.model, other):
            errors = {}
            for options in ((), ('--no-prior',)):
                done = run(EVAL, 'predict', model, '--data', self.data, '--steps', '10', '--json', *options)
                result = json.loads(done.stdout)['models'][0]
                self.assertEqual(result['prior'], not options)
                errors[options] = {c['examples']: c['one_step'] for c in result['by_examples']}
            self.assertLess(errors[()][5], errors[('--no-prior',)][5])
        self.assertIn('again exists', run(TRAIN, 'prior', self.model, '--data', self.data, '--output', again, code=1).stderr)
        self.assertIn('prior wants one model', run(TRAIN, 'prior', self.model, '--data', self.data, code=2).stderr)
        inner = self.path('inner')
        run(TRAIN, '--data', self.data, '--output', inner, '--steps', '2', '--method', 'inner_product', *TINY)
        self.assertIn('least squares', run(TRAIN, 'prior', inner, '--data', self.data, '--output', inner, code=1).stderr)

    def test_increments_without_an_ode(self):
        direct = self.path('direct')
        run(TRAIN, '--data', self.data, '--output', direct, '--steps', '400', '--decay', 'cosine', '--integration', 'direct',
            *TINY)
        model = json.loads(run(EVAL, 'predict', direct, '--data', self.data, '--steps', '10', '--json').stdout)['models'][0]
        self.assertEqual(model['row'], 'shared, direct')
        self.assertLess(model['adapted']['median'][-1], 0.5 * model['without_coefficients']['median'][-1])
        self.assertIn('combined or direct', run(TRAIN, '--data', self.data, '--output', self.path('separate'),
                                                '--integration', 'separate', code=1).stderr)
        self.assertIn('refinements: only shared models with combined integration',
                      run(TRAIN, '--data', self.data, '--output', self.path('refined'), '--integration', 'direct',
                          '--refinements', '2', code=1).stderr)
        self.assertIn('refinements: 9 is not in 0..7', run(TRAIN, '--data', self.data, '--refinements', '9', code=2).stderr)
        self.assertIn("integration: 'euler' is not one of separate, combined, direct",
                      run(TRAIN, '--data', self.data, '--integration', 'euler', code=2).stderr)

    def test_options_of_commands(self):
        self.assertIn("hilbert-eval: --steps: 'many' is not a whole number in 1..100000",
                      run(EVAL, 'predict', self.model, '--data', self.data, '--steps', 'many', code=2).stderr)
        self.assertIn("--threads: '-1' is not", run(EVAL, 'predict', self.model, '--data', self.data, '--threads=-1',
                                                    code=2).stderr)
        self.assertIn("hilbert-train: --nb: '0' is not", run(TRAIN, 'prune', self.model, '--data', self.data, '--nb', '0',
                                                             '-o', self.path('none'), code=2).stderr)
        self.assertIn("unknown option '--colour'", run(EVAL, 'predict', '--colour', code=2).stderr)

    def test_prune(self):
        cut = self.path('cut')
        text = run(TRAIN, 'prune', self.model, '--data', self.data, '--nb', '2', '--output', cut).stdout
        self.assertIn('cut exists: name another --output',
                      run(TRAIN, 'prune', self.model, '--data', self.data, '--nb', '2', '--output', cut, code=1).stderr)
        run(TRAIN, 'prune', self.model, '--data', self.data, '--nb', '2', '--output', cut, '--force')
        shares = [float(line.split()[1]) for line in text.splitlines()[1:]]
        self.assertEqual(len(shares), 3)
        self.assertEqual(shares, sorted(shares))
        self.assertTrue(math.isclose(shares[-1], 1))
        model = json.loads(run(EVAL, 'predict', cut, '--data', self.data, '--json').stdout)['models'][0]
        self.assertEqual(model['nb'], 2)

    def test_config_file(self):
        config = self.path('train.yaml')
        with open(config, 'w') as out:
            out.write(f'data: {self.data}\noutput: {self.path("configured")}\nnb: 2\nhidden: [6]\nsteps: 3\n'
                      'functions: 2\nexamples: 20\nqueries: 20\n')
        run(TRAIN, '--config', config)
        self.assertTrue(os.path.exists(self.path('configured')))
        with open(config, 'a') as out:
            out.write('flavour: sweet\n')
        self.assertIn("train.yaml:9: there is no setting 'flavour'", run(TRAIN, '--config', config, code=2).stderr)

    def test_plot(self):
        name = self.path('training')
        run(TRAIN, '--data', self.data, '--output', self.path('plotted'), '--steps', '20', '--validate-every', '10',
            '--plot', name, *TINY)
        self.assertTrue(os.path.getsize(name + '.svg') > 1000 and os.path.getsize(name + '.png') > 1000)

    def test_no_gnuplot(self):
        environment = dict(os.environ, PATH='/nonexistent')
        done = subprocess.run([os.path.abspath(TRAIN), '--data', self.data, '--output', self.path('no'), '--plot', 'x'],
                              capture_output=True, text=True, env=environment)
        self.assertEqual(done.returncode, 1)
        self.assertIn('install gnuplot', done.stderr)

    def test_defaults_are_those_of_the_manual(self):
        """What the manual recommends, or calls the default, is what --help has in brackets."""
        text = run(TRAIN, '--help').stdout
        with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), '../../packaging/man/hilbert-train.1.scd')) as file:
            manual = ' '.join(file.read().split())
        default = dict(re.findall(r'(?m)^  --([a-z-]+) .*\[([^\]]+)\]$', text))
        for pattern, names in ((r'A learning rate of (\S+) with (\w+) decay, the default', ('learning-rate', 'decay')),
                               (r'Functions in a step \((\d+)\), example and query points of each \((\d+) and (\d+)\), and how '
                                r'many transitions each query point is rolled out for \((\d+)\)',
                                ('functions', 'examples', 'queries', 'rollout')),
                               (r'fitted again so many times \((\d+)\)', ('refinements',)),
                               (r'every so many steps \((\d+)\)', ('prior-every',))):
            said = re.search(pattern, manual)
            self.assertIsNotNone(said, pattern)
            self.assertEqual(list(said.groups()), [default[name] for name in names])

    def test_vehicles(self):
        """Parameters are listed; a model of another mass has forces in proportion; the data choose, and say why."""
        said = run(TRAIN, '--average', 'nominal:quadrotor:help').stdout
        for name in ('mass', 'ixx', 'arm', 'torque_ratio', 'gravity'):
            self.assertRegex(said, r'(?m)^  %s ' % name)
        with open(self.path('map.yaml'), 'w') as file:
            states = ('x', 'vx', 'y', 'vy', 'z', 'vz', 'qx', 'qy', 'qz', 'qw', 'wx', 'wy', 'wz')
            file.write('time: t\ndt: 0.04\nstates: {%s}\n' % ', '.join("'%s[1]': %s" % (s, s) for s in states))
            file.write('controls: {%s}\n' % ', '.join('f%d: f%d' % (i, i) for i in range(4)))
            file.write("vehicles: {'': {mass: 0.03}, large: {mass: 0.06}}\n")
        logs = [self.path('small.csv'), self.path('large.csv')]
        for path, mass in zip(logs, (0.03, 0.06)):
            with open(path, 'w') as file:
                file.write('t,' + ','.join(states) + ',f0,f1,f2,f3\n')
                vz = wx = 0
                for k in range(400):
                    up, turn = math.sin(0.3 * k) * 0.02, math.sin(0.7 * k) * 0.004
                    hover = mass * 9.81 / 4
                    force = [hover * (1 + up + turn), hover * (1 + up + turn), hover * (1 + up - turn), hover * (1 + up - turn)]
                    row = [0.04 * k, 0, 0, 0, 0, 1, vz, 0, 0, 0, 1, wx, 1e-3 * math.sin(k), 1e-3 * math.cos(k)]
                    file.write(','.join('%.9g' % v for v in row + force) + '\n')
                    vz += 0.04 * 9.81 * up
                    wx += 0.04 * 4 * hover * turn * 0.028 / (1.4e-5 * mass / 0.027)
        data = self.path('vehicles.h5')
        run(TRAIN, 'import', '--map', self.path('map.yaml'), '--output', data, *logs)
        self.assertIn('known parameters', run(TRAIN, 'data', data).stdout)
        found = run(TRAIN, 'identify', data, '--average', 'nominal:quadrotor').stdout
        self.assertIn('delay and lag are kept in it', found)
        self.assertRegex(found, r'(?m)^  f3 +delay [0-9.]+ \+- [0-9.]+ ms, lag')
        self.assertIn('is no physics', run(TRAIN, 'identify', data, '--average', 'head', code=1).stderr)
        model, other = self.path('vehicle'), self.path('heavier')
        said = run(TRAIN, '--data', data, '--output', model, '--average', 'nominal:quadrotor', '--steps', '5', '--hold-out', '0',
                   '--hidden', '8', '--rollout', '2').stderr
        self.assertIn('chosen: --inputs -x,-y,-z (the physics does not depend on them)', said)
        self.assertNotIn('chosen: --rollout ', said)
        run(TRAIN, 'vehicle', model, 'mass=0.09', '--output', other)
        known = []
        for path in (model, other):
            with open(path, 'rb') as file:
                header = json.loads(file.read(int.from_bytes(file.read(8), 'little')))['__metadata__']
            known.append(dict(item.split('=') for item in header['nominal_parameters'].split(',')))
        self.assertEqual(float(known[1]['mass']), 0.09)
        self.assertAlmostEqual(float(known[1]['ixx']) / float(known[0]['ixx']), 0.09 / float(known[0]['mass']), 6)
        self.assertIn('only: mass, ixx', run(TRAIN, 'vehicle', model, 'weight=1', '--output', self.path('no'), code=1).stderr)
        self.assertIn('vehicle wants', run(TRAIN, 'vehicle', model, code=2).stderr)

    def raw_logs_to_verdict(self, logs, mass, name):
        """Three commands, of which nothing is edited in between; returns what each said."""
        description = run(TRAIN, 'describe', '--mass', str(mass), *logs)
        with open(self.path(f'{name}.yaml'), 'w') as out:
            out.write(description.stdout)
        imported = run(TRAIN, 'import', '--map', self.path(f'{name}.yaml'), '--output', self.path(f'{name}.h5'), *logs)
        trained = run(TRAIN, '--data', self.path(f'{name}.h5'), '--average', 'nominal:quadrotor', '--output', self.path(f'{name}.safetensors'),
                      '--steps', '100')
        self.assertNotIn("frames are not what", imported.stderr + trained.stderr)
        self.assertNotIn("controls are not in the order", imported.stderr + trained.stderr)
        verdict = trained.stderr[trained.stderr.index('verdict, functions that were not trained on'):]
        for quantity in ('position', 'velocity', 'attitude', 'rates'):
            self.assertRegex(verdict, f'{quantity}: adapting (pays|brings little|HURTS): after 10 steps')
        return description.stdout, imported, trained, verdict

    def test_raw_logs(self):
        description, _, trained, verdict = self.raw_logs_to_verdict(write_flights(self.folder), 0.03, 'made')
        # a law, frames and an order that are not those of the columns
        self.assertIn("'f0[N]': 'mass * k * (m4 * vbat)^2'", description)
        self.assertIn("'f3[N]': 'mass * k * (m1 * vbat)^2'", description)
        self.assertIn("'z[m]': '-pz'", description)
        self.assertIn("'wy[rad/s]': '-gyro_y'", description)
        self.assertAlmostEqual(float(re.search(r'k: (\S+)}', description)[1]), 2.4, delta=0.1)
        # physics that fit: an inertia of 1.03 times the nominal one of its mass
        self.assertAlmostEqual(float(re.search(r'ixx +(\S+)', trained.stdout + trained.stderr)[1]) / 1.6e-5, 1, delta=0.15)
        self.assertNotRegex(verdict, r'(prior mean|after 5 s|online) .*ran away')

    def test_real_flights(self):
        """Flights that others recorded are no part of the repository: where they are, one set is imported and identified."""
        root = os.path.join(os.path.dirname(os.path.abspath(__file__)), '../..')
        said = run(EVAL, 'real', '--flights', '/nowhere', '--maps', os.path.join(root, 'config/logs'), '--folder', self.path('real'),
                   'idsia-square', code=1).stderr
        self.assertIn('nothing is measured without them', said)
        folder = os.path.join(root, '../shared/flights/idsia')
        if not os.path.isdir(folder):
            self.skipTest(f'NOT TESTED: there are no recorded flights in {folder}')
        data = self.path('idsia.h5')
        run(TRAIN, 'import', '--map', os.path.join(root, 'config/logs/idsia.yaml'), '--output', data,
            *[os.path.join(folder, name) for name in sorted(os.listdir(folder))])
        found = run(TRAIN, 'identify', data, '--average', 'nominal:quadrotor', '--dry-run').stdout
        self.assertRegex(found, r'torque_ratio +-')  # its rotors turn the other way round
        # an inertia of a vehicle of its mass: 34 times that was found while torques that cancel the air's passed for weak ones
        inertia = float(re.search(r'ixx +(\S+)', found)[1])
        self.assertTrue(0.6 < inertia / (1.4e-5 * 0.0445 / 0.027) < 2.5, found)
        # and without a description: speeds squared, in the order that config/logs/idsia.yaml was given by hand
        description = self.raw_logs_to_verdict([os.path.join(folder, name) for name in sorted(os.listdir(folder))], 0.0445, 'raw')[0]
        for i in range(4):
            self.assertIn(f"'f{i}[N]': 'mass * k * m{4 - i}_erpm^2'", description)

    def test_usage(self):
        for program in (TRAIN, EVAL):
            self.assertIn('usage:', run(program, '--help').stdout)
            self.assertRegex(run(program, '--version').stdout, r'^hilbert-\w+ \d')
            run(program, code=2)
        for command in ('data', 'import-csv', 'prune'):
            self.assertIn('usage:', run(TRAIN, command, '--help').stdout)
        for command in ('predict', 'vanderpol'):
            self.assertIn('usage:', run(EVAL, command, '--help').stdout)
        self.assertIn('nowhere', run(TRAIN, 'data', '/nowhere.h5', code=1).stderr)
        self.assertIn('learn', run(TRAIN, 'learn', code=2).stderr)
        self.assertIn('--learning', run(TRAIN, '--learning', '1', code=2).stderr)
        self.assertIn('juggle', run(EVAL, 'juggle', code=2).stderr)
        self.assertIn('--steps', run(EVAL, 'predict', 'a', '--data', 'b', '--steps', 'x', code=2).stderr)
        self.assertIn('no checkpoint', run(TRAIN, '--resume', self.model, code=1).stderr)


unittest.main(argv=sys.argv[:1])
