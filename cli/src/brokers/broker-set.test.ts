import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { request } from 'node:http'
import os from 'node:os'
import path from 'node:path'
import { type StandaloneAgent, startStandalone } from '@akrijs/agent/standalone'
import { objectKey } from '@akrijs/kube'
import { silentLogger, systemClock } from '@akrijs/sdk'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { askAgent } from '../control/control-client.js'
import { serveControl } from '../control/control-server.js'
import { BrokerLedger } from './broker-ledger.js'
import { BrokerSet, type BrokerSetOptions } from './broker-set.js'
import { FinishedJobs } from './finished-jobs.js'

let directory: string
let standalone: StandaloneAgent
let brokers: BrokerSet
let lines: string[]
let warnings: unknown[]

const write = (command: string) =>
  writeBroker(`brokerPodSpec: { containers: [{ name: b, command: ${JSON.stringify(command.split(' '))} }] }`)

const writeJob = (script: string, job = '') =>
  writeBroker(
    `brokerJobSpec: { ${job} template: { spec: { containers: [{ command: [/bin/sh, -c, ${JSON.stringify(script)}] }] } } }`,
  )

const writeBroker = (broker: string) =>
  writeFileSync(
    path.join(directory, 'c.yaml'),
    `apiVersion: akri.sh/v0
kind: Configuration
metadata: { name: echo }
spec:
  discoveryHandler: { name: debugEcho, discoveryDetails: 'descriptions: ["foo0"]' }
  capacity: 2
  brokerSpec: { ${broker} }
`,
  )

const state = () => {
  const [instance] = standalone.cluster.instances.list()
  return instance && brokers.state(objectKey(instance.metadata.namespace, instance.metadata.name))
}
const pid = () => {
  const now = state()
  return now?.phase === 'running' ? now.pid : undefined
}
const used = () =>
  standalone.cluster.instances.list().flatMap(({ spec }) => Object.values(spec.deviceUsage).filter((usage) => usage !== ''))
    .length

beforeEach(async () => {
  directory = mkdtempSync(path.join(os.tmpdir(), 'akri-b-'))
  lines = []
  warnings = []
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
    log: { ...silentLogger, warn: (fields: unknown) => warnings.push(fields) },
    environment: process.env,
    onLine: (_, line) => lines.push(line),
    onChange: () => {},
  }
}

afterEach(async () => {
  await brokers.close()
  await standalone.close()
  await rm(directory, { recursive: true, force: true })
})

const patience = { timeout: 10_000, interval: 20 }

describe('the brokers of a machine', () => {
  it('R48 run once for each Instance, with a slot of their own', async () => {
    await vi.waitFor(() => expect(pid()).toBeGreaterThan(1), patience)
    expect(used()).toBe(1)
  })

  it('are started again when they end, with one slot all the time', async () => {
    const first = await vi.waitFor(() => pid() ?? expect.fail('none runs'), patience)
    process.kill(first, 'SIGKILL')
    await vi.waitFor(() => expect(pid() !== undefined && pid() !== first).toBe(true), patience)
    await vi.waitFor(() => expect(used()).toBe(1), patience)
  })

  it('of an edited Configuration are replaced, and one slot is allocated in the end', async () => {
    const first = await vi.waitFor(() => pid() ?? expect.fail('none runs'), patience)
    write('sleep 2000')
    await vi.waitFor(() => expect(existsSync(`/proc/${first}`) || pid() === undefined).toBe(false), patience)
    expect(readFileSync(`/proc/${pid()}/cmdline`, 'utf8')).toContain('2000')
    expect(standalone.kubelet.resource(`akri.sh/${standalone.cluster.instances.list()[0]?.metadata.name}`).allocated).toBe(1)
  })

  it('whose command does not exist say so', async () => {
    await vi.waitFor(() => expect(pid()).toBeDefined(), patience)
    write('/no/such/broker')
    await vi.waitFor(
      () => expect(state()).toMatchObject({ phase: 'waiting', reason: expect.stringContaining('/no/such/broker') }),
      patience,
    )
  })

  it('R52 R53 that are Jobs run to their end once, also over a restart of the agent, and free their slot', async () => {
    writeJob(`echo ran >> ${directory}/runs; echo "$DEBUG_ECHO_DESCRIPTION"`, 'completions: 2,')
    const runs = () => (existsSync(`${directory}/runs`) ? readFileSync(`${directory}/runs`, 'utf8').match(/ran/g)?.length : 0)
    await vi.waitFor(() => expect(state()).toEqual({ phase: 'completed' }), patience)
    expect(runs()).toBe(2)
    expect(lines).toContain('foo0')
    await vi.waitFor(() => expect(used()).toBe(0), patience)
    await brokers.close()
    brokers = new BrokerSet(await options())
    brokers.start()
    expect(state()).toEqual({ phase: 'completed' })
    // Another spec is another Job.
    writeJob(`echo ran again >> ${directory}/runs`)
    await vi.waitFor(() => expect(runs()).toBe(3), patience)
  })

  it('R53 that are Jobs are over also while there is no room to write that down, which is done as soon as there is', async () => {
    const file = path.join(directory, 'jobs.json')
    symlinkSync('/dev/full', `${file}.next`)
    writeJob('true')
    await vi.waitFor(() => expect(state()).toEqual({ phase: 'completed' }), patience)
    await vi.waitFor(
      () => expect(warnings).toContainEqual(expect.objectContaining({ file, error: expect.stringContaining('ENOSPC') })),
      patience,
    )
    rmSync(`${file}.next`)
    await vi.waitFor(() => expect(readFileSync(file, 'utf8')).toContain('completed'), patience)
  })

  it('R52 that are Jobs are tried again as often as backoffLimit says', async () => {
    writeJob(`echo ran >> ${directory}/runs; exit 7`, 'backoffLimit: 1,')
    await vi.waitFor(() => expect(state()).toEqual({ phase: 'failed', reason: 'it exited with code 7' }), patience)
    expect(readFileSync(`${directory}/runs`, 'utf8')).toBe('ran\nran\n')
  })

  it('go on while there is no room to write down that they run, which is done as soon as there is', async () => {
    const first = await vi.waitFor(() => pid() ?? expect.fail('none runs'), patience)
    const ledger = path.join(directory, 'brokers.json')
    // What is written there meets a disk that is full.
    symlinkSync('/dev/full', `${ledger}.next`)
    write('sleep 2000')
    await vi.waitFor(() => expect(warnings).toContainEqual(expect.objectContaining({ file: ledger })), patience)
    const second = await vi.waitFor(() => pid() ?? expect.fail('none runs'), patience)
    expect(second).not.toBe(first)
    expect(warnings[0]).toMatchObject({ pid: second, error: expect.stringContaining('ENOSPC') })
    rmSync(`${ledger}.next`)
    await vi.waitFor(() => expect(JSON.parse(readFileSync(ledger, 'utf8'))).toMatchObject([{ pid: second }]), patience)
    expect(pid()).toBe(second)
  })

  it('end with the agent', async () => {
    const first = await vi.waitFor(() => pid() ?? expect.fail('none runs'), patience)
    await brokers.close()
    expect(existsSync(`/proc/${first}`)).toBe(false)
    expect(readFileSync(path.join(directory, 'brokers.json'), 'utf8')).toBe('[]')
  })
})

describe('the control socket', () => {
  it('gives objects by their paths in Kubernetes to its owner only, and outlives odd requests', async () => {
    const socket = path.join(directory, 'control.sock')
    const control = await serveControl(socket, standalone, brokers)
    try {
      expect(statSync(socket).mode & 0o777).toBe(0o600)
      for (const odd of ['//', '/%zz', '/apis/akri.sh/v0/pods']) expect(await askAgent(socket, odd)).toBeUndefined()
      const deleted = new Promise((resolve) =>
        request({ socketPath: socket, path: '/apis/akri.sh/v0/configurations', method: 'DELETE' }, ({ statusCode }) =>
          resolve(statusCode),
        ).end(),
      )
      expect(await deleted).toBe(404)
      await vi.waitFor(
        async () =>
          expect(await askAgent(socket, '/apis/akri.sh/v0/configurations')).toMatchObject({
            kind: 'ConfigurationList',
            items: [{ metadata: { name: 'echo' } }],
          }),
        patience,
      )
    } finally {
      await control.close()
    }
    await expect(askAgent(socket, '/problems')).rejects.toThrow(/none is running there/)
  })
})
