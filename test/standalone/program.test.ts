import { type ChildProcess, execFile, spawn, spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import type { Instance } from '@akrijs/kube'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { askAgent } from '../../cli/src/control/control-client.js'

const run = promisify(execFile)
const root = path.join(path.dirname(fileURLToPath(import.meta.url)), '../..')
const akri = path.join(root, 'cli/dist/akri.js')
/** How many times things are killed; more by AKRI_CHAOS_ROUNDS. */
const ROUNDS = Number(process.env.AKRI_CHAOS_ROUNDS ?? 25)

let directory: string
let state: string
let agent: ChildProcess | undefined
let output: string

beforeEach(async () => {
  directory = await mkdtemp(path.join(os.tmpdir(), 'akri-'))
  state = path.join(directory, 's')
  output = ''
})

afterEach(async () => {
  // Not by SIGKILL: it ends its brokers.
  await stop('SIGTERM')
  await rm(directory, { recursive: true, force: true })
})

function start(...args: string[]): void {
  const child = spawn(process.execPath, [akri, 'run', '--plain', '--state-dir', state, '--node', 'node-a', ...args], {
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  agent = child
  child.stdout?.on('data', (chunk) => {
    output += String(chunk)
  })
  child.stderr?.on('data', (chunk) => {
    output += String(chunk)
  })
}

async function stop(signal: NodeJS.Signals): Promise<number | null> {
  const child = agent
  agent = undefined
  if (child === undefined || child.exitCode !== null || child.signalCode !== null) return child?.exitCode ?? null
  const ended = new Promise<number | null>((resolve) => child.once('exit', (code) => resolve(code)))
  child.kill(signal)
  return ended
}

const configuration = (name: string, spec: string) =>
  `apiVersion: akri.sh/v0\nkind: Configuration\nmetadata: { name: ${name} }\nspec:\n${spec}`
const nullDevice = (broker: string) => `  discoveryHandler: { name: udev, discoveryDetails: 'udevRules: [KERNEL=="null"]' }
  capacity: 2
  brokerProperties: { SITE: north }
  brokerSpec: { brokerPodSpec: { containers: [{ name: b, command: ${broker} }] } }`

async function write(name: string, text: string): Promise<string> {
  const file = path.join(directory, name)
  await writeFile(file, text)
  return file
}

async function instances(): Promise<Instance[]> {
  const { stdout } = await run(process.execPath, [akri, 'get', 'instances', '-o', 'json', '--state-dir', state])
  return (JSON.parse(stdout) as { items: Instance[] }).items
}

/** A zombie is dead: only whoever adopted it has not looked yet. */
const alive = (pid: number) => existsSync(`/proc/${pid}`) && !/\) Z /.test(readFileSync(`/proc/${pid}/stat`, 'utf8'))
const brokerPids = async () =>
  (JSON.parse(await readFile(path.join(state, 'brokers.json'), 'utf8')) as { pid: number }[]).map(({ pid }) => pid)
const patience = { timeout: 15_000, interval: 100 }

describe('akri run', () => {
  it('R49 R106 R113 runs a broker for a real device, with the environment that Allocate gives, and leaves nothing behind', async () => {
    const file = await write('a.yaml', configuration('nulls', nullDevice(`[/bin/sh, -c, 'env; exec sleep 1000']`)))
    start('-f', file)
    await vi.waitFor(() => expect(output).toContain('UDEV_DEVNODE=/dev/null'), patience)
    const own = [...output.matchAll(/^\[nulls-[0-9a-f]{6}] (\w+)=/gm)].map(([, name]) => name)
    const [instance] = await instances()
    const digest = String(instance?.metadata.name.slice(-6)).toUpperCase()
    const allocated = ['UDEV_DEVPATH', 'UDEV_DEVNODE', 'SITE', 'AKRI_BROKER_INFO_DIRECTORY'].flatMap((name) => [
      name,
      `${name}_${digest}`,
    ])
    const ofEveryProcess = ['PATH', 'HOME', 'LANG', 'TMPDIR', 'TZ', 'PWD', 'OLDPWD', 'SHLVL', '_']
    expect(own.filter((name) => !ofEveryProcess.includes(name ?? '')).sort()).toEqual([...allocated].sort())
    expect(Object.values(instance?.spec.deviceUsage ?? {})).toEqual(['node-a', ''])

    const [pid = 0] = await brokerPids()
    expect(await stop('SIGINT')).toBe(0)
    expect(alive(pid)).toBe(false)
    const kept = JSON.parse(await readFile(path.join(state, 'cluster.json'), 'utf8')) as { state: { instances: Instance[] } }
    expect(Object.values(kept.state.instances[0]?.spec.deviceUsage ?? {})).toEqual(['', ''])
  })

  it('R49 R90 starts a broker again when it ends, each time with a slot', async () => {
    start('-f', await write('a.yaml', configuration('nulls', nullDevice(`[/bin/sh, -c, 'echo here I am']`))))
    await vi.waitFor(() => expect(output.match(/here I am/g)?.length ?? 0).toBeGreaterThan(2), patience)
    expect(output).toContain('it exited with code 0')
  })

  it('goes on with the rest when something in the files is wrong, and says what, where and why', async () => {
    await write(
      'a-good.yaml',
      configuration('good', `  discoveryHandler: { name: debugEcho, discoveryDetails: 'descriptions: [foo0]' }`),
    )
    await write('b-yaml.yaml', 'kind: [')
    await write('c-capacity.yaml', configuration('zero', `  discoveryHandler: { name: debugEcho }\n  capacity: 0`))
    await write('d-field.yaml', configuration('field', `  discoveryHandler: { name: debugEcho, discoveryDetail: x }`))
    await write(
      'e-rule.yaml',
      configuration('rule', `  discoveryHandler: { name: udev, discoveryDetails: 'udevRules: [KERNEL="null"]' }`),
    )
    await write('f-handler.yaml', configuration('handler', `  discoveryHandler: { name: none-such }`))
    await write(
      'g-twin.yaml',
      configuration('good', `  discoveryHandler: { name: debugEcho, discoveryDetails: 'descriptions: [foo1]' }`),
    )
    await write(
      'h-command.yaml',
      configuration(
        'command',
        `  discoveryHandler: { name: debugEcho, discoveryDetails: 'descriptions: [foo2]' }\n  brokerSpec: { brokerPodSpec: { containers: [{ command: [/no/such/program] }] } }`,
      ),
    )
    start('-f', directory)
    await vi.waitFor(
      async () => expect((await instances()).map(({ spec }) => spec.configurationName).sort()).toEqual(['command', 'good']),
      patience,
    )
    await vi.waitFor(() => expect(output).toMatch(/no such program|cannot be started.*ENOENT/), patience)
    expect(output).toMatch(/b-yaml\.yaml.*line 1/)
    expect(output).toMatch(/c-capacity\.yaml.*spec\.capacity/)
    expect(output).toMatch(/d-field\.yaml.*discoveryDetail.*did you mean discoveryDetails/)
    expect(output).toMatch(/g-twin\.yaml.*a-good\.yaml/)
    const table = async () => (await run(process.execPath, [akri, 'get', 'configurations', '--state-dir', state])).stdout
    await vi.waitFor(
      async () => expect(await table()).toMatch(/rule .*InvalidDetails: .*udevRules\[0\].*line 1, column/),
      patience,
    )
    expect(await table()).toMatch(/handler .*NoHandler: no handler none-such/)
  })

  it('refuses a state directory on which another agent works', async () => {
    const file = await write('a.yaml', configuration('nulls', nullDevice(`[/bin/sh, -c, 'exec sleep 1000']`)))
    start('-f', file)
    await vi.waitFor(() => expect(output).toContain('agent started'), patience)
    const second = spawnSync(process.execPath, [akri, 'run', '--plain', '--state-dir', state, '-f', file], { encoding: 'utf8' })
    expect(second.status).toBe(1)
    expect(second.stderr).toContain('another agent works on')
  })

  it.each([
    [['get', 'instances'], 1, /no agent answers on .*akri run/s],
    [['get', 'gadgets'], 2, /"gadgets" is not known; there are configurations/],
    [['discover', 'none-such'], 1, /none-such.*npm install none-such/],
    [['discover', 'udev', '--details-text', 'udevRules: [RUN+="x"]'], 1, /udevRules\[0\].*line 1, column 1/s],
    [['run'], 2, /nothing to run: give Configurations with -f/],
  ])('says what is wrong with %j', (args, status, message) => {
    const result = spawnSync(process.execPath, [akri, ...args], {
      encoding: 'utf8',
      env: { ...process.env, AKRI_STATE_DIRECTORY: state },
    })
    expect(result.stderr).toMatch(message)
    expect(result.status).toBe(status)
  })

  it('shows what a handler finds, for people and for machines', () => {
    const details = ['discover', 'udev', '--details-text', 'udevRules: [KERNEL=="null"]']
    expect(spawnSync(process.execPath, [akri, ...details], { encoding: 'utf8' }).stdout).toMatch(
      /^ID .*\n\/devices\/virtual\/mem\/null .*\/dev\/null:rwm/,
    )
    const [list] = spawnSync(process.execPath, [akri, ...details, '--json'], { encoding: 'utf8' }).stdout.split('\n')
    expect(JSON.parse(list ?? '')).toMatchObject([{ id: '/devices/virtual/mem/null' }])
  })

  it(`R84 R90 A2 loses no slot, doubles none and changes no Instance when agent, handler and broker are killed at any moment (${ROUNDS} rounds)`, {
    timeout: 60_000 + ROUNDS * 10_000,
  }, async () => {
    const file = await write('a.yaml', configuration('nulls', nullDevice(`[/bin/sh, -c, 'exec sleep 1000']`)))
    const identity = ({ metadata, spec }: Instance) => ({
      uid: metadata.uid,
      name: metadata.name,
      ...spec,
      deviceUsage: Object.keys(spec.deviceUsage),
    })
    // Straight from the socket: a program for each look would take most of the time.
    const look = async () => {
      const { items } = (await askAgent(path.join(state, 'control.sock'), '/apis/akri.sh/v0/instances')) as { items: Instance[] }
      return items
    }
    const running = () =>
      vi.waitFor(
        async () => {
          const pids = (await brokerPids()).filter(alive)
          expect(pids).toHaveLength(1)
          const now = await look()
          expect(now.map(({ spec }) => Object.values(spec.deviceUsage).filter((usage) => usage !== '').length)).toEqual([1])
          return { pids, instances: now.map(identity) }
        },
        { timeout: 40_000, interval: 50 },
      )
    // Handlers run in processes of their own, so that they can be killed for themselves.
    const begin = () => start('-f', file, '--isolated', '--handler', '@akrijs/handler-udev')
    const handlerPids = () =>
      (agent?.pid === undefined ? [] : childrenOf(agent.pid)).filter((pid) => commandOf(pid).includes('akri-handler'))
    begin()
    const first = await running()
    let seed = 12345
    const next = (limit: number) => {
      // A linear congruential generator: the same moments in every run.
      seed = (seed * 1103515245 + 12345) % 2 ** 31
      return seed % limit
    }
    const killBroker = (pids: readonly number[]) => {
      for (const pid of pids.filter(alive)) process.kill(-pid, 'SIGKILL')
    }
    const killHandler = () => {
      for (const pid of handlerPids()) process.kill(pid, 'SIGKILL')
    }
    const killed = { agent: 0, handler: 0, broker: 0 }
    for (let round = 0; round < ROUNDS; round++) {
      const before = await brokerPids()
      const victims = [['agent'], ['handler'], ['broker'], ['broker', 'handler', 'agent'], ['agent', 'agent']][round % 5] ?? []
      for (const victim of victims) {
        if (victim === 'agent') {
          await stop('SIGKILL')
          killed.agent++
          begin()
        } else if (victim === 'handler') {
          killed.handler += handlerPids().length
          killHandler()
        } else {
          killed.broker++
          killBroker(await brokerPids())
        }
        // The next blow falls in the middle of what this one has caused.
        await new Promise((resolve) => setTimeout(resolve, next(600)))
      }
      const now = await running()
      expect(now.instances).toEqual(first.instances)
      for (const pid of before) if (!now.pids.includes(pid)) expect(alive(pid)).toBe(false)
    }
    expect(Math.min(killed.agent, killed.handler, killed.broker)).toBeGreaterThan(0)
    expect(output).not.toMatch(/instance (left|created).*instance (left|created)/s)
  })
})

function childrenOf(pid: number): number[] {
  return readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ').filter(Boolean).map(Number)
}

function commandOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8')
  } catch {
    return ''
  }
}
