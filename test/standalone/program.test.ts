import { execFileSync } from 'node:child_process'
import { constants } from 'node:fs'
import { chown, mkdir, open, readFile, rm, symlink } from 'node:fs/promises'
import path from 'node:path'
import type { Instance } from '@akrijs/api'
import { systemClock } from '@akrijs/runtime'
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import { askAgent } from '../../cli/src/control/control-client.js'
import { socketDirectory } from '../../cli/src/places.js'
import { eventually } from '../support/eventually.js'
import { AkriProgram } from './support/akri-program.js'
import { isAlive } from './support/processes.js'

/** The number of kills; AKRI_CHAOS_ROUNDS overrides it. */
const ROUNDS = Number(process.env.AKRI_CHAOS_ROUNDS ?? 25)

let akri: AkriProgram

beforeEach(async () => {
  akri = await AkriProgram.create()
})

afterEach(() => akri.dispose())

const configuration = (name: string, spec: string) =>
  `apiVersion: akri.sh/v0\nkind: Configuration\nmetadata: { name: ${name} }\nspec:\n${spec}`
const nullDevice = (
  broker: string,
) => `  discoveryHandler: { name: udev, discoveryDetails: 'udevRules: [KERNEL=="null"]' }
  capacity: 2
  brokerProperties: { SITE: north }
  brokerSpec: { brokerPodSpec: { containers: [{ name: b, command: ${broker} }] } }`

const brokerPids = async () =>
  (
    JSON.parse(await readFile(path.join(akri.state, 'brokers.json'), 'utf8')) as { pid: number }[]
  ).map(({ pid }) => pid)
const patience = { timeout: 45_000, interval: 100 }

describe('akri run', () => {
  it('R49 R106 R113 runs a broker with its environment, and leaves nothing behind', async () => {
    const file = await akri.write(
      'a.yaml',
      configuration('nulls', nullDevice(`[/bin/sh, -c, 'env; echo printed; exec sleep 1000']`)),
    )
    akri.start('-f', file)
    await vi.waitFor(() => expect(akri.output).toContain('] printed'), patience)
    const names = [...akri.output.matchAll(/^\[nulls-[0-9a-f]{6}] (\w+)=/gm)].map(
      ([, name]) => name,
    )
    const [instance] = await akri.instances()
    const digest = String(instance?.metadata.name.slice(-6)).toUpperCase()
    const allocated = [
      'UDEV_DEVPATH',
      'UDEV_DEVNODE',
      'SITE',
      'AKRI_BROKER_INFO_DIRECTORY',
    ].flatMap((name) => [name, `${name}_${digest}`])
    const ofEveryProcess = ['PATH', 'HOME', 'LANG', 'TMPDIR', 'TZ', 'PWD', 'OLDPWD', 'SHLVL', '_']
    expect(names.filter((name) => !ofEveryProcess.includes(name ?? '')).sort()).toEqual(
      [...allocated].sort(),
    )
    expect(Object.values(instance?.spec.deviceUsage ?? {})).toEqual(['node-a', ''])

    const [pid = 0] = await brokerPids()
    expect(await akri.stop('SIGINT')).toBe(0)
    expect(isAlive(pid)).toBe(false)
    const kept = JSON.parse(await readFile(path.join(akri.state, 'cluster.json'), 'utf8')) as {
      state: { instances: Instance[] }
    }
    expect(Object.values(kept.state.instances[0]?.spec.deviceUsage ?? {})).toEqual(['', ''])
  })

  it.each([
    ['SIGINT', 'cluster.json'],
    ['SIGTERM', 'brokers.json'],
    ['SIGHUP', 'jobs.json'],
  ] as const)(
    'ends by %s also while it starts and its file %s does not answer',
    async (signal, name) => {
      await mkdir(akri.state)
      const file = path.join(akri.state, name)
      execFileSync('mkfifo', [file])
      akri.start(
        '-f',
        await akri.write(
          'a.yaml',
          configuration('nulls', nullDevice(`[/bin/sh, -c, 'exec sleep 1000']`)),
        ),
      )
      // A pipe cannot be opened for writing before a reader opens it, and the reader waits for
      // data.
      const { O_WRONLY, O_NONBLOCK } = constants
      await using _pipe = await vi.waitFor(() => open(file, O_WRONLY | O_NONBLOCK), patience)
      expect(await akri.stop(signal)).toBeNull()
    },
  )

  it('ends at once after a second signal, and leaves no broker', async () => {
    const stubborn = `[/bin/sh, -c, 'trap "" TERM INT; echo deaf; while :; do sleep 1; done']`
    akri.start('-f', await akri.write('a.yaml', configuration('nulls', nullDevice(stubborn))))
    await vi.waitFor(() => expect(akri.output).toContain('deaf'), patience)
    const [broker = 0] = await brokerPids()
    const agent = akri.pid ?? 0
    const ended = akri.stop('SIGINT')
    await vi.waitFor(() => {
      if (isAlive(agent)) process.kill(agent, 'SIGINT')
      expect(isAlive(agent)).toBe(false)
    }, patience)
    // An end in order has exit code 0, after the time limit of the broker.
    expect(await ended).toBeNull()
    await vi.waitFor(() => expect(isAlive(broker)).toBe(false), patience)
  })

  it('R49 R90 restarts a broker that ends, each time with a slot', async () => {
    akri.start(
      '-f',
      await akri.write(
        'a.yaml',
        configuration('nulls', nullDevice(`[/bin/sh, -c, 'echo here I am']`)),
      ),
    )
    await vi.waitFor(
      () => expect(akri.output.match(/here I am/g)?.length ?? 0).toBeGreaterThan(2),
      patience,
    )
    expect(akri.output).toContain('it exited with code 0')
  })

  it('reports a problem in a file with place and reason, and goes on', async () => {
    await akri.write(
      'a-good.yaml',
      configuration(
        'good',
        `  discoveryHandler: { name: debugEcho, discoveryDetails: 'descriptions: [foo0]' }`,
      ),
    )
    await akri.write('b-yaml.yaml', 'kind: [')
    await akri.write(
      'c-capacity.yaml',
      configuration('zero', `  discoveryHandler: { name: debugEcho }\n  capacity: 0`),
    )
    await akri.write(
      'd-field.yaml',
      configuration('field', `  discoveryHandler: { name: debugEcho, discoveryDetail: x }`),
    )
    await akri.write(
      'e-rule.yaml',
      configuration(
        'rule',
        `  discoveryHandler: { name: udev, discoveryDetails: 'udevRules: [KERNEL="null"]' }`,
      ),
    )
    await akri.write(
      'f-handler.yaml',
      configuration('handler', `  discoveryHandler: { name: none-such }`),
    )
    await akri.write(
      'g-twin.yaml',
      configuration(
        'good',
        `  discoveryHandler: { name: debugEcho, discoveryDetails: 'descriptions: [foo1]' }`,
      ),
    )
    await akri.write(
      'h-command.yaml',
      configuration(
        'command',
        `  discoveryHandler: { name: debugEcho, discoveryDetails: 'descriptions: [foo2]' }\n` +
          '  brokerSpec: { brokerPodSpec: { containers: [{ command: [/no/such/program] }] } }',
      ),
    )
    akri.start('-f', akri.directory)
    await vi.waitFor(
      async () =>
        expect((await akri.instances()).map(({ spec }) => spec.configurationName).sort()).toEqual([
          'command',
          'good',
        ]),
      patience,
    )
    const noCommand = new RegExp(
      String.raw`error .*h-command\.yaml.*spec\.brokerSpec\.brokerPodSpec\.containers\[0]` +
        String.raw`\.command\[0].*its command /no/such/program does not exist`,
    )
    await vi.waitFor(() => expect(akri.output).toMatch(noCommand), patience)
    expect(akri.output).toMatch(/b-yaml\.yaml line=1 column=8 error="it is not YAML/)
    expect(akri.output).toMatch(/c-capacity\.yaml.*spec\.capacity/)
    expect(akri.output).toMatch(/d-field\.yaml.*discoveryDetail.*did you mean discoveryDetails/)
    expect(akri.output).toMatch(/g-twin\.yaml.*a-good\.yaml/)
    await vi.waitFor(() => {
      expect(akri.output).toMatch(/e-rule\.yaml.*discoveryDetails.*udevRules\[0\].*line 1, column/)
      expect(akri.output).toMatch(
        /f-handler\.yaml.*spec\.discoveryHandler\.name.*no handler none-such/,
      )
    }, patience)
    const table = () => akri.ask('get', 'configurations')
    await vi.waitFor(
      async () =>
        expect(await table()).toMatch(/rule .*InvalidDetails: .*udevRules\[0\].*line 1, column/),
      patience,
    )
    expect(await table()).toMatch(/handler .*NoHandler: no handler none-such/)
    const described = await akri.ask('describe', 'configuration', 'rule')
    expect(described).toMatch(
      /InvalidDetails .*udevRules\[0\].*line 1, column.*\n +\| +KERNEL="null"\n +\| +\^/,
    )
    expect(described).not.toContain('\u{fffd}')
  })

  it('says where a handler can be installed, and which name is meant', async () => {
    const file = await akri.write(
      'c.yaml',
      configuration('c', '  discoveryHandler: { name: debugEcho }'),
    )
    akri.start('-f', file, '--handler', 'none-such,udef')
    await eventually(() => {
      const place = `where ${process.cwd()} can find it; run npm install none-such`
      expect(akri.output).toContain(place)
      expect(akri.output).toContain('there is no handler udef; did you mean udev?')
    })
  })

  it('refuses a state directory that another agent uses', async () => {
    const file = await akri.write(
      'a.yaml',
      configuration('nulls', nullDevice(`[/bin/sh, -c, 'exec sleep 1000']`)),
    )
    akri.start('-f', file)
    await vi.waitFor(() => expect(akri.output).toContain('agent started'), patience)
    const second = akri.run(['run', '--plain', '-f', file])
    expect(second.status).toBe(1)
    expect(second.stderr).toContain('another agent uses')
  })

  it('refuses it also by a long path, and with another temporary directory', async () => {
    const long = path.join(akri.directory, 'x'.repeat(90))
    await mkdir(long)
    await symlink(long, akri.state)
    const file = await akri.write(
      'a.yaml',
      configuration('nulls', nullDevice(`[/bin/sh, -c, 'exec sleep 1000']`)),
    )
    akri.start('-f', file)
    await vi.waitFor(async () => expect(await akri.instances()).toHaveLength(1), patience)
    expect(akri.run(['get', 'instances', '--state-dir', long]).stdout).toContain('nulls')
    vi.stubEnv('TMPDIR', akri.directory)
    onTestFinished(() => void vi.unstubAllEnvs())
    // The link to the sockets is still valid.
    expect(akri.run(['get', 'instances', '--state-dir', long]).stdout).toContain('nulls')
    const second = akri.run(['run', '--plain', '-f', file, '--state-dir', long])
    expect(second.status).toBe(1)
    expect(second.stderr).toContain(`another agent uses ${long}`)
  })

  it.skipIf(process.getuid?.() !== 0)(
    'refuses a socket directory of another user (needs root)',
    async () => {
      const long = path.join(akri.directory, 'x'.repeat(90))
      await mkdir(long)
      const sockets = await socketDirectory(long)
      onTestFinished(() => rm(sockets, { recursive: true, force: true }))
      await mkdir(sockets)
      await chown(sockets, 65534, 65534)
      const file = await akri.write(
        'a.yaml',
        configuration('nulls', nullDevice(`[/bin/sh, -c, 'exec sleep 1000']`)),
      )
      const refused = akri.run(['run', '--plain', '-f', file, '--state-dir', long])
      expect(refused.stderr).toContain(`${sockets} belongs to user 65534, not to 0`)
      expect(refused.status).toBe(1)
      await rm(sockets, { recursive: true })
      await symlink(akri.directory, sockets)
      expect(akri.run(['run', '--plain', '-f', file, '--state-dir', long]).stderr).toContain(
        `${sockets} is not a directory; remove it`,
      )
      // Root may use a state directory of another user.
      const state = path.join(akri.directory, 'o')
      await mkdir(state)
      await chown(state, 65534, 65534)
      await symlink(state, akri.state)
      akri.start('-f', file)
      await vi.waitFor(async () => expect(await akri.instances()).toHaveLength(1), patience)
    },
  )

  it.each([
    [['get', 'instances'], 1, /no agent answers on .*akri run/s],
    [['get', 'gadgets'], 2, /"gadgets" is no kind; the kinds are configurations/],
    [['run'], 2, /nothing to run: give Configurations with -f/],
    [['run', '--node', ''], 2, /--node <name>.*write a DNS name/],
    [['run', '--node', 'C:1:x'], 2, /--node <name>.*write a DNS name/],
    [
      ['get', 'instances', '--state-dir', ''],
      2,
      /--state-dir <directory>.*write the path of a directory/,
    ],
  ])('reports the problem of %j', (args, status, message) => {
    const result = akri.run(args)
    expect(result.stderr).toMatch(message)
    expect(result.status).toBe(status)
  })

  it('treats empty environment variables as unset', () => {
    const environment = {
      AKRI_STATE_DIRECTORY: '',
      XDG_STATE_HOME: akri.directory,
      AGENT_NODE_NAME: '',
      LOG_LEVEL: '',
    }
    const state =
      process.getuid?.() === 0 ? '/var/lib/akri-standalone' : path.join(akri.directory, 'akri')
    expect(akri.run(['get', 'instances'], '', environment).stderr).toContain(
      `no agent answers on ${state}/control.sock`,
    )
    expect(akri.run(['run', '--state-dir', akri.state], '', environment).stderr).toContain(
      'nothing to run',
    )
  })

  it(`R84 R90 A2 keeps claims and Instances whatever is killed (${ROUNDS} rounds)`, {
    timeout: 300_000 + ROUNDS * 10_000,
  }, async () => {
    const file = await akri.write(
      'a.yaml',
      configuration('nulls', nullDevice(`[/bin/sh, -c, 'exec sleep 1000']`)),
    )
    const identity = ({ metadata, spec }: Instance) => ({
      uid: metadata.uid,
      name: metadata.name,
      ...spec,
      deviceUsage: Object.keys(spec.deviceUsage),
    })
    // By the control socket: a new program for each request would take most of the time.
    const look = async () => {
      const { items } = (await askAgent(
        path.join(akri.state, 'control.sock'),
        '/apis/akri.sh/v0/instances',
      )) as {
        items: Instance[]
      }
      return items
    }
    const running = () =>
      vi.waitFor(
        async () => {
          const pids = (await brokerPids()).filter(isAlive)
          expect(pids).toHaveLength(1)
          const now = await look()
          expect(
            now.map(
              ({ spec }) => Object.values(spec.deviceUsage).filter((usage) => usage !== '').length,
            ),
          ).toEqual([1])
          return { pids, instances: now.map(identity) }
        },
        { timeout: 45_000, interval: 50 },
      )
    // Handlers run in their own processes, so that the test can kill each alone.
    const begin = () => akri.start('-f', file, '--isolated', '--handler', '@akrijs/handler-udev')
    begin()
    const first = await running()
    let seed = 12345
    const next = (limit: number) => {
      // A linear congruential generator gives the same moments in every run.
      seed = (seed * 1103515245 + 12345) % 2 ** 31
      return seed % limit
    }
    const killBroker = (pids: readonly number[]) => {
      for (const pid of pids.filter(isAlive)) process.kill(-pid, 'SIGKILL')
    }
    const killHandler = () => {
      for (const pid of akri.handlers) process.kill(pid, 'SIGKILL')
    }
    const killed = { agent: 0, handler: 0, broker: 0 }
    for (let round = 0; round < ROUNDS; round++) {
      const before = await brokerPids()
      const victims =
        [['agent'], ['handler'], ['broker'], ['broker', 'handler', 'agent'], ['agent', 'agent']][
          round % 5
        ] ?? []
      for (const victim of victims) {
        if (victim === 'agent') {
          await akri.stop('SIGKILL')
          killed.agent++
          begin()
        } else if (victim === 'handler') {
          killed.handler += akri.handlers.length
          killHandler()
        } else {
          killed.broker++
          killBroker(await brokerPids())
        }
        // The next kill happens during the recovery from this one.
        await systemClock.sleep(next(600))
      }
      const now = await running()
      expect(now.instances).toEqual(first.instances)
      for (const pid of before) if (!now.pids.includes(pid)) expect(isAlive(pid)).toBe(false)
    }
    expect(Math.min(killed.agent, killed.handler, killed.broker)).toBeGreaterThan(0)
    expect(akri.output).not.toMatch(/instance (left|created).*instance (left|created)/s)
  })
})
