"""hilbert-train and hilbert-sim collect as several ranks on one machine: the same bytes for any number of them, a
checkpoint of four that two go on with, a rank that dies, shards.

usage: test_ranks.py MPIRUN HILBERT_TRAIN HILBERT_SIM
"""
import functools
import os
import signal
import subprocess
import sys
import tempfile
import unittest

import programs
from waiting import wait_until

MPIRUN, TRAIN, SIM = sys.argv[1:4]
TINY = ['--nb', '3', '--hidden', '10,10', '--functions', '7', '--examples', '30', '--queries', '30', '--validate-every', '50']
# more ranks than processors, and as root in a container; ranks that are to stop have time to write their checkpoint
ENVIRONMENT = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT='1', OMPI_ALLOW_RUN_AS_ROOT_CONFIRM='1',
                   OMPI_MCA_rmaps_base_oversubscribe='1', OMPI_MCA_odls_base_sigkill_timeout='5')


def run(*command, code=0):
    return programs.run(*command, code=code, env=ENVIRONMENT)


def ranks(n, *command):
    return [MPIRUN, '-n', str(n), *command]


def read(path):
    with open(path, 'rb') as f:
        return f.read()


def numbers(path):
    """What comes behind the header of a basis file."""
    data = read(path)
    return data[8 + int.from_bytes(data[:8], 'little'):]


class Ranks(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.data = cls.path('data.h5')
        cls.collect = ['collect', 'vanderpol', '-f', '30', '-e', '4', '-n', '60', '-s', '9', '-q']
        run(SIM, *cls.collect, '-o', cls.data)
        cls.long = ['--data', cls.data, '--steps', '8000', '--checkpoint-every', '1000', *TINY]

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    @classmethod
    def path(cls, name):
        return os.path.join(cls.temporary.name, name)

    @classmethod
    @functools.cache
    def undisturbed(cls):
        """The bytes of what one process makes of cls.long."""
        run(TRAIN, *cls.long, '--output', cls.path('undisturbed'))
        return read(cls.path('undisturbed'))

    def wait(self, process, condition, what):
        def look():
            found = condition()
            if not found:
                self.assertIsNone(process.poll(), what)
            return found

        return wait_until(look, what, 300, every=0.01)  # five minutes, for a machine that does something else

    def start(self, n, output):
        """A training as n ranks, stopped as soon as it has made steps: mpirun, and its ranks, which stand still. However
        busy the machine is, the training is then not over when they are sent a signal."""
        process = subprocess.Popen(ranks(n, TRAIN, *self.long, '--output', output, '--threads', '1'), env=ENVIRONMENT,
                                   stderr=subprocess.PIPE, text=True)

        def children():
            listed = subprocess.run(['ps', '-o', 'pid=,args=', '--ppid', str(process.pid)], capture_output=True, text=True)
            found = [int(line.split()[0]) for line in listed.stdout.splitlines() if TRAIN in line]
            return found if len(found) == n else None

        pids = self.wait(process, children, f'{n} ranks')
        log = output + '.jsonl'
        self.wait(process, lambda: os.path.exists(log) and len(read(log).splitlines()) > 1, 'steps are made')
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        return process, pids

    def test_ranks_and_threads_do_not_matter(self):
        options = ['--data', self.data, '--steps', '60', *TINY]
        alone = self.path('alone')
        run(TRAIN, *options, '--output', alone, '--threads', '1')
        for n, threads in ((2, 1), (3, 2), (4, 1), (8, 1)):
            output = self.path(f'ranks{n}')
            done = run(*ranks(n, TRAIN, *options, '--output', output, '--threads', str(threads)))
            self.assertIn(f'{n} ranks', done.stderr)
            self.assertEqual(read(output), read(alone), f'{n} ranks')

    def test_two_go_on_where_four_stopped(self):
        output = self.path('four')
        process, pids = self.start(4, output)
        # each for itself, as a batch system does; mpirun would let them go on for sigkill_timeout first
        for pid in pids:
            os.kill(pid, signal.SIGTERM)
            os.kill(pid, signal.SIGCONT)
        text = process.communicate(timeout=300)[1]
        self.assertIn('stopped after step', text)
        self.assertFalse(os.path.exists(output))
        run(*ranks(2, TRAIN, '--resume', output + '.checkpoint', '--threads', '1'))
        self.assertEqual(read(output), self.undisturbed())

    def test_a_rank_that_dies_leaves_a_checkpoint(self):
        output = self.path('dies')
        process, pids = self.start(3, output)
        os.kill(pids[-1], signal.SIGKILL)
        for pid in pids[:-1]:
            os.kill(pid, signal.SIGCONT)
        text = process.communicate(timeout=300)[1]
        self.assertNotEqual(process.returncode, 0)
        self.assertRegex(text, r'hilbert-train: rank \d: .* died')
        self.assertIn('--resume', text)
        self.assertTrue(os.path.exists(output + '.checkpoint'))
        run(TRAIN, '--resume', output + '.checkpoint')
        self.assertEqual(read(output), self.undisturbed())

    def test_shards_are_one_data_set(self):
        run(*ranks(4, SIM, *self.collect, '-o', self.path('shard.h5')))
        for k in range(1, 5):
            run(SIM, *self.collect, '--shard', f'{k}/4', '-o', self.path('single.h5'))
            self.assertEqual(read(self.path(f'shard-{k}-of-4.h5')), read(self.path(f'single-{k}-of-4.h5')))
        whole, parts = self.path('whole'), self.path('parts')
        options = ['--steps', '20', *TINY]
        run(TRAIN, '--data', self.data, '--output', whole, *options)
        run(TRAIN, '--data', self.path('shard-*-of-4.h5'), '--output', parts, *options)
        # all but the name of the data is the same
        self.assertEqual(numbers(whole), numbers(parts))
        names = ','.join(self.path(f'shard-{k}-of-4.h5') for k in range(1, 5))
        described = run(TRAIN, 'data', names).stdout
        self.assertIn('functions    30', described)
        self.assertIn('no such file', run(TRAIN, '--data', self.path('none-*.h5'), '--output', parts, '--force', code=1).stderr)
        run(SIM, *self.collect, '--dt', '0.2', '-o', self.path('other.h5'))
        self.assertIn('period', run(TRAIN, 'data', self.data + ',' + self.path('other.h5'), code=1).stderr)
        self.assertIn("--shard: '5/4'", run(SIM, *self.collect, '--shard', '5/4', '-o', self.path('x.h5'), code=2).stderr)

    def test_shards_stay_on_disk(self):
        """Memory of each rank, for shards that are larger together than what --stream keeps of a data set."""
        shard = self.path('large-1.h5')
        run(SIM, 'collect', 'vanderpol', '-f', '16', '-e', '2', '-n', '20000', '-s', '9', '-q', '-o', shard)
        for k in range(2, 13):
            os.symlink(shard, self.path(f'large-{k}.h5'))
        total = 12 * os.path.getsize(shard) / 2**20
        measure = ('import resource, subprocess, sys\n'
                   'code = subprocess.run(sys.argv[1:]).returncode\n'
                   'print("peak", resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024, flush=True)\n'
                   'sys.exit(code)')

        def peaks(data, stream):
            output = self.path(f'stream-{stream}')
            done = run(*ranks(2, sys.executable, '-c', measure, TRAIN, '--data', data, '--stream', stream, '--steps', '40',
                              '--threads', '1', '--hold-out', '2', '--force', '--output', output, *TINY))
            return [float(line.split()[1]) for line in done.stdout.splitlines() if line.startswith('peak')]

        alone = max(peaks(self.data, 'no'))
        streamed, read_in = peaks(self.path('large-*.h5'), 'yes'), peaks(self.path('large-*.h5'), 'no')
        self.assertEqual(len(streamed), 2)
        # times of irregular steps are kept, and 64 MB of all files together
        times = 12 * 16 * 2 * 20001 * 8 / 2**20
        self.assertLess(max(streamed), alone + times + 64)
        self.assertGreater(min(read_in), alone + 0.7 * total)
        self.assertGreater(total, 150)
        self.assertEqual(numbers(self.path('stream-yes')), numbers(self.path('stream-no')))


if __name__ == '__main__':
    unittest.main(argv=sys.argv[:1] + sys.argv[4:])
