import { spawn } from 'node:child_process'
import { existsSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { keyOf, objectKey } from '@akrijs/kube'
import { silentLogger, systemClock } from '@akrijs/runtime'
import { ManualClock } from '@akrijs/runtime/testing'
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import { eventually } from '../../../test/support/eventually.js'
import { temporaryDirectory } from '../../../test/support/temporary-directory.js'
import { type StandaloneAgent, startStandalone } from '../standalone.js'
import { BrokerLedger } from './broker-ledger.js'
import { BrokerSet, type BrokerSetOptions } from './broker-set.js'
import { FinishedJobs } from './finished-jobs.js'

let directory: string
let standalone: StandaloneAgent
let brokers: BrokerSet
let lines: string[]
/** The Instances whose broker changed its state. */
let changed: Set<string>
let warnings: unknown[]
/** The log lines, with their level. */
let logged: { level: string; message: string; retryInMs?: number }[]

const write = (command: string) =>
  writeBroker(
    `brokerPodSpec: { containers: [{ name: b, command: ${JSON.stringify(command.split(' '))} }] }`,
  )

const writeJob = (script: string, job = '') =>
  writeBroker(
    `brokerJobSpec: { ${job} template: { spec: { containers: ` +
      `[{ command: [/bin/sh, -c, ${JSON.stringify(script)}] }] } } }`,
  )

const writeBroker = (broker: string, capacity = 2) =>
  writeFileSync(
    path.join(directory, 'c.yaml'),
    `apiVersion: akri.sh/v0
kind: Configuration
metadata: { name: echo }
spec:
  discoveryHandler: { name: debugEcho, discoveryDetails: 'descriptions: ["foo0"]' }
  capacity: ${capacity}
  brokerSpec: { ${broker} }
`,
  )

/** Starts another set, with a manual clock. */
async function restart(): Promise<ManualClock> {
  await brokers.close()
  const clock = new ManualClock()
  brokers = new BrokerSet({ ...(await options()), clock })
  return clock
}

const linesOf = (level: string, message: string) =>
  logged.filter((line) => line.level === level && line.message === message)

const state = () => {
  const [instance] = standalone.cluster.instances.list()
  return instance && brokers.state(objectKey(instance.metadata.namespace, instance.metadata.name))
}
const pid = () => {
  const now = state()
  return now?.phase === 'running' ? now.pid : undefined
}
/** Waits for a broker. @param before the process of another broker */
const running = (before?: number) =>
  eventually(() => {
    const now = pid() ?? expect.fail('none runs')
    expect(now).not.toBe(before)
    return now
  })
const used = () =>
  standalone.cluster.instances
    .list()
    .flatMap(({ spec }) => Object.values(spec.deviceUsage).filter((usage) => usage !== '')).length

beforeEach(async () => {
  directory = await temporaryDirectory()
  lines = []
  changed = new Set()
  warnings = []
  logged = []
  write('sleep 1000')
  standalone = await startStandalone({
    manifests: [path.join(directory, 'c.yaml')],
    stateDirectory: path.join(directory, 's'),
    node: 'node-a',
    handlers: ['@akrijs/handler-debug-echo'],
    handlersFrom: import.meta.dirname,
    log: silentLogger,
  })
  brokers = new BrokerSet(await options())
  brokers.start()
})

async function options(): Promise<BrokerSetOptions> {
  return {
    standalone,
    ledger: new BrokerLedger(path.join(directory, 'brokers.json')),
    finished: await FinishedJobs.open(path.join(directory, 'jobs.json')),
    clock: systemClock,
    log: {
      ...silentLogger,
      info: (fields: object, message: string) =>
        void logged.push({ level: 'info', ...fields, message }),
      warn: (fields: object, message: string) => {
        warnings.push(fields)
        logged.push({ level: 'warn', ...fields, message })
      },
      error: (fields: object, message: string) =>
        void logged.push({ level: 'error', ...fields, message }),
    },
    environment: process.env,
    onLine: (_, line) => lines.push(line),
    onChange: (instance) => changed.add(instance),
  }
}

afterEach(async () => {
  await brokers.close()
  await standalone.close()
})

describe('the brokers of a machine', () => {
  it('are restarted after a bug, which is logged as an error', async () => {
    const first = await running()
    const bug = new TypeError('x is not a function')
    const admit = vi.spyOn(standalone.kubelet, 'admit').mockRejectedValueOnce(bug)
    onTestFinished(() => admit.mockRestore())
    process.kill(first, 'SIGKILL')
    await running(first)
    expect(linesOf('error', 'broker failed')).toMatchObject([{ err: bug }])
    const [instance] = standalone.cluster.instances.list()
    expect([...changed]).toEqual([`default/${instance?.metadata.name}`])
  })

  it('of an edited Configuration are replaced, and one slot is allocated in the end', async () => {
    const first = await running()
    write('sleep 2000')
    await eventually(() => expect(existsSync(`/proc/${first}`) || pid() === undefined).toBe(false))
    expect(readFileSync(`/proc/${pid()}/cmdline`, 'utf8')).toContain('2000')
    expect(
      standalone.kubelet.resource(
        `akri.sh/${standalone.cluster.instances.list()[0]?.metadata.name}`,
      ).allocated,
    ).toBe(1)
  })

  it('that cannot be started are logged with file, path and reason, once a change', async () => {
    const file = path.join(directory, 'c.yaml')
    const at = 'spec.brokerSpec.brokerPodSpec.containers[0]'
    const cannot = 'it cannot be started: its'
    write('/no/such/broker')
    await eventually(() => expect(linesOf('info', 'broker not running').length).toBeGreaterThan(1))
    const first = {
      level: 'error',
      message: 'broker cannot run',
      file,
      line: 7,
      column: expect.any(Number),
      path: `${at}.command[0]`,
      error: `${cannot} command /no/such/broker does not exist`,
    }
    expect(logged.filter(({ level }) => level === 'error')).toEqual([first])
    writeBroker(`brokerPodSpec: { containers: [{ command: [/bin/true], workingDir: /no/such }] }`)
    const second = {
      ...first,
      path: `${at}.workingDir`,
      error: `${cannot} workingDir /no/such does not exist`,
    }
    await eventually(() =>
      expect(logged.filter(({ level }) => level === 'error')).toEqual([first, second]),
    )
    writeBroker(`brokerPodSpec: { containers: [{ command: sh -c x }] }`)
    const third = {
      ...first,
      path: `${at}.command`,
      error: expect.stringContaining('"sh -c x" is no list'),
    }
    await eventually(() =>
      expect(logged.filter(({ level }) => level === 'error')).toEqual([first, second, third]),
    )
    expect(state()).toMatchObject({
      phase: 'none',
      reason: expect.stringContaining(`${at}.command: "sh -c x" is no list`),
    })
  })

  it('that ask for more slots than the capacity are refused until it is raised', async () => {
    const asking =
      `brokerPodSpec: { containers: [{ command: [sleep, '1000'], ` +
      `resources: { limits: { '{{PLACEHOLDER}}': '3' } } }] }`
    writeBroker(asking)
    await eventually(() =>
      expect(linesOf('error', 'broker cannot run')).toEqual([
        expect.objectContaining({
          file: path.join(directory, 'c.yaml'),
          path: 'spec.brokerSpec.brokerPodSpec.containers[0].resources.limits["{{PLACEHOLDER}}"]',
          error: expect.stringContaining('3 is more than spec.capacity, which is 2'),
        }),
      ]),
    )
    expect(state()).toMatchObject({
      phase: 'waiting',
      reason: expect.stringMatching(/^for 3 of akri\.sh\/echo-/),
    })
    writeBroker(asking, 3)
    await running()
    expect(used()).toBe(3)
  })

  it('wait for a claimed slot with one warning, and make no attempts meanwhile', async () => {
    await running()
    const clock = await restart()
    const resource = `akri.sh/${standalone.cluster.instances.list()[0]?.metadata.name}`
    await standalone.kubelet.admit({
      uid: 'other',
      name: 'other',
      namespace: 'default',
      containers: [{ name: 'main', resources: { [resource]: 2 } }],
    })
    logged = []
    brokers.start()
    await eventually(() =>
      expect(state()).toEqual({ phase: 'waiting', reason: `for 1 of ${resource}` }),
    )
    await clock.advance(4999)
    expect(logged).toEqual([])
    await clock.advance(1)
    await clock.advance(60_000)
    const waits = {
      level: 'warn',
      message: 'broker waits for a slot',
      resource,
      wanted: 1,
      allocatable: 2,
      allocated: 2,
    }
    expect(logged).toEqual([{ ...waits, broker: resource.replace('akri.sh/', '') }])
    standalone.kubelet.remove('other')
    await running()
    expect(logged.map(({ message }) => message)).toEqual([
      'broker waits for a slot',
      'broker started',
    ])
  })

  it('that ran for ten seconds are restarted without a longer back-off', async () => {
    const clock = await restart()
    brokers.start()
    const ends = () => linesOf('info', 'broker not running')
    /** Kills the broker, and waits for its restart. @returns the wait, in milliseconds */
    const kill = async () => {
      const before = ends().length
      process.kill(await running(), 'SIGKILL')
      const { retryInMs = 0 } = await eventually(() => ends()[before] ?? expect.fail('it runs'))
      await clock.advance(retryInMs)
      return retryInMs
    }
    // Each wait is between 50 % and 100 % of its step: 1 s, 2 s, 4 s.
    for (const least of [500, 1000, 2000]) expect(await kill()).toBeGreaterThanOrEqual(least)
    await running()
    await clock.advance(9999)
    expect(await kill()).toBeGreaterThanOrEqual(4000)
    await running()
    await clock.advance(10_000)
    expect(await kill()).toBeLessThanOrEqual(1000)
  })

  it('R52 R53 of a Job run to their end once, also over a restart, and free slots', async () => {
    writeJob(`echo ran >> ${directory}/runs; echo "$DEBUG_ECHO_DESCRIPTION"`, 'completions: 2,')
    const runs = () =>
      existsSync(`${directory}/runs`)
        ? readFileSync(`${directory}/runs`, 'utf8').match(/ran/g)?.length
        : 0
    await eventually(() => expect(state()).toEqual({ phase: 'completed' }))
    expect(runs()).toBe(2)
    expect(lines).toContain('foo0')
    await eventually(() => expect(used()).toBe(0))
    await brokers.close()
    brokers = new BrokerSet(await options())
    brokers.start()
    expect(state()).toEqual({ phase: 'completed' })
    // A new spec makes a new Job.
    writeJob(`echo ran again >> ${directory}/runs`)
    await eventually(() => expect(runs()).toBe(3))
  })

  it('R53 of a Job end although their end cannot be written, which is retried', async () => {
    const file = path.join(directory, 'jobs.json')
    symlinkSync('/dev/full', `${file}.next`)
    writeJob('true')
    await eventually(() => expect(state()).toEqual({ phase: 'completed' }))
    await eventually(() =>
      expect(warnings).toContainEqual(
        expect.objectContaining({
          file,
          err: expect.objectContaining({ message: expect.stringContaining('ENOSPC') }),
        }),
      ),
    )
    rmSync(`${file}.next`)
    await eventually(() => expect(readFileSync(file, 'utf8')).toContain('completed'))
  })

  it('of a Job run after the end of the Job of before, also if it changes twice', async () => {
    const runs = path.join(directory, 'runs')
    const job = (name: string) =>
      `trap 'sleep 0.7; echo ${name} ended >> ${runs}; exit 1' TERM; ` +
      `echo ${name} started >> ${runs}; while :; do sleep 0.05; done`
    const text = () => (existsSync(runs) ? readFileSync(runs, 'utf8') : '')
    writeJob(job('first'))
    await eventually(() => expect(text()).toBe('first started\n'))
    writeJob(job('second'))
    const waiting = { phase: 'waiting', reason: 'for the end of the previous broker' }
    await eventually(() => expect(state()).toEqual(waiting))
    writeJob(job('third'))
    await eventually(() => expect(text()).toContain('third started\n'))
    expect(text()).toBe('first started\nfirst ended\nthird started\n')
    writeJob(job('fourth'))
    await eventually(() => expect(state()).toEqual(waiting))
    await brokers.close()
    expect(text()).toBe('first started\nfirst ended\nthird started\nthird ended\n')
  })

  it('R52 of a Job are restarted backoffLimit times', async () => {
    writeJob(`echo ran >> ${directory}/runs; exit 7`, 'backoffLimit: 1,')
    await eventually(() =>
      expect(state()).toEqual({ phase: 'failed', reason: 'it exited with code 7' }),
    )
    expect(readFileSync(`${directory}/runs`, 'utf8')).toBe('ran\nran\n')
  })

  it('run also while the ledger cannot be written, and the write is retried', async () => {
    const first = await running()
    const ledger = path.join(directory, 'brokers.json')
    // Each write to this device fails as on a full disk.
    symlinkSync('/dev/full', `${ledger}.next`)
    write('sleep 2000')
    await eventually(() =>
      expect(warnings).toContainEqual(expect.objectContaining({ file: ledger })),
    )
    const second = await running(first)
    expect(warnings[0]).toMatchObject({
      pid: second,
      err: expect.objectContaining({ message: expect.stringContaining('ENOSPC') }),
    })
    rmSync(`${ledger}.next`)
    await eventually(() =>
      expect(JSON.parse(readFileSync(ledger, 'utf8'))).toMatchObject([{ pid: second }]),
    )
    expect(pid()).toBe(second)
  })

  it('wait for a broker that an earlier agent could not end', async () => {
    await running()
    await brokers.close()
    const [instance] = standalone.cluster.instances.list()
    const key = instance === undefined ? '' : keyOf(instance)
    const foreign = spawn('sleep', ['1000'], { detached: true, stdio: 'ignore' })
    const { kill } = process
    // As of a process of another user.
    const spy = vi.spyOn(process, 'kill').mockImplementation((target, signal) => {
      if (Math.abs(target) !== foreign.pid) return kill.call(process, target, signal)
      throw Object.assign(new Error('kill EPERM'), { code: 'EPERM' })
    })
    onTestFinished(() => {
      spy.mockRestore()
      foreign.kill('SIGKILL')
    })
    const next = await options()
    next.ledger.add(foreign.pid ?? 0, key)
    const { ledger } = await options()
    expect(await ledger.endLeftovers()).toEqual({ ended: [], left: [foreign.pid] })
    brokers = new BrokerSet({ ...next, ledger })
    brokers.start()
    const waiting = { phase: 'waiting', reason: 'for the end of the previous broker' }
    await eventually(() => expect(state()).toEqual(waiting))
    // Another broker of the Instance waits too.
    write('sleep 2000')
    await eventually(() =>
      expect(standalone.cluster.configurations.list()[0]?.metadata.generation).toBe(2),
    )
    expect(state()).toEqual(waiting)
    foreign.kill('SIGKILL')
    await running()
  })

  it('R48 run once for each Instance, with a slot each, and end with the agent', async () => {
    const first = await running()
    expect(used()).toBe(1)
    await brokers.close()
    expect(existsSync(`/proc/${first}`)).toBe(false)
    expect(readFileSync(path.join(directory, 'brokers.json'), 'utf8')).toBe('[]')
  })
})
