import { readdirSync, readFileSync } from 'node:fs'
import { mkdir, mkdtemp, rm, rmdir, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Instance } from '@akrijs/api'
import { objectKey } from '@akrijs/kube'
import { silentLogger } from '@akrijs/runtime'
import { type StandaloneAgent, type StandaloneOptions, startStandalone } from '@akrijs/standalone'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { eventually } from '../support/eventually.js'

const root = path.join(path.dirname(fileURLToPath(import.meta.url)), '../..')

let directory: string
let running: StandaloneAgent | undefined

beforeEach(async () => {
  directory = await mkdtemp(path.join(os.tmpdir(), 'akri-'))
})

afterEach(async () => {
  await running?.close()
  running = undefined
  await rm(directory, { recursive: true, force: true })
})

const file = () => path.join(directory, 'lab.yaml')

async function configure(capacity: number, descriptions: string[], name = 'lab'): Promise<void> {
  await writeFile(
    file(),
    `apiVersion: akri.sh/v0
kind: Configuration
metadata: { name: ${name} }
spec:
  discoveryHandler: { name: debugEcho, discoveryDetails: '${JSON.stringify({ descriptions })}' }
  capacity: ${capacity}
  brokerProperties: { SITE: north }
`,
  )
}

async function start(options: Partial<StandaloneOptions> = {}): Promise<StandaloneAgent> {
  running = await startStandalone({
    manifests: [file()],
    stateDirectory: path.join(directory, 'state'),
    node: 'node-a',
    handlers: ['@akrijs/handler-debug-echo'],
    handlersFrom: root,
    log: silentLogger,
    ...options,
  })
  return running
}

const names = ({ cluster }: StandaloneAgent) =>
  cluster.instances
    .list()
    .map(({ metadata }) => metadata.name as string)
    .sort()
const usage = ({ cluster }: StandaloneAgent, name: string) =>
  cluster.instances.list().find(({ metadata }) => metadata.name === name)?.spec.deviceUsage
const pod = (uid: string, resource: string, count = 1) => ({
  uid,
  name: uid,
  namespace: 'default',
  containers: [{ name: 'main', resources: { [resource]: count } }],
})

describe('the standalone agent', () => {
  it('R1 R79 R98 R104 R105 makes each device an Instance and a resource', async () => {
    await configure(2, ['foo0', 'foo1'])
    const agent = await start()
    await eventually(() => expect(names(agent)).toEqual(['lab-8120fe', 'lab-a19705']))
    const instance = agent.cluster.instances.get(objectKey('default', 'lab-8120fe'))
    expect(instance?.spec).toEqual({
      configurationName: 'lab',
      cdiName: 'akri.sh/lab=8120fe',
      capacity: 2,
      shared: true,
      nodes: ['node-a'],
      brokerProperties: { DEBUG_ECHO_DESCRIPTION: 'foo0', SITE: 'north' },
      deviceUsage: { 'lab-8120fe-0': '', 'lab-8120fe-1': '' },
    })
    await eventually(() =>
      expect(agent.kubelet.resource('akri.sh/lab-8120fe')).toMatchObject({
        capacity: 2,
        allocatable: 2,
      }),
    )
  })

  it('R90 is the only node of its machine, and has all slots under a new name', async () => {
    await configure(1, ['foo0', 'foo1'])
    const first = await start({ node: 'n1' })
    const resource = 'akri.sh/lab-8120fe'
    await eventually(() => expect(first.kubelet.resource(resource).allocatable).toBe(1))
    await first.kubelet.admit(pod('p1', resource))
    expect(usage(first, 'lab-8120fe')).toEqual({ 'lab-8120fe-0': 'n1' })
    await first.close()
    const warned: unknown[] = []
    const agent = await start({
      node: 'n2',
      log: { ...silentLogger, warn: (fields, message) => void warned.push({ ...fields, message }) },
    })
    await eventually(() => expect(names(agent)).toEqual(['lab-8120fe', 'lab-a19705']))
    expect(agent.cluster.instances.list().map(({ spec }) => spec.nodes)).toEqual([['n2'], ['n2']])
    await eventually(() => expect(agent.kubelet.resource(resource).allocatable).toBe(1))
    await agent.kubelet.admit(pod('p2', resource))
    expect(usage(agent, 'lab-8120fe')).toEqual({ 'lab-8120fe-0': 'n2' })
    const discarded = 'state of another node discarded'
    expect(warned).toContainEqual({ node: 'n2', previousNodes: ['n1'], message: discarded })
    expect(
      readdirSync(path.join(directory, 'state')).filter((name) => name.includes('corrupt')),
    ).toEqual([])
  })

  it('R39 R80 R82 R106 R113 R90 gives a container its slot, and releases it', async () => {
    await configure(2, ['foo0'])
    const agent = await start()
    const resource = 'akri.sh/lab-8120fe'
    await eventually(() => expect(agent.kubelet.resource(resource).allocatable).toBe(2))
    const admitted = await agent.kubelet.admit(pod('p1', resource))
    expect(admitted.get('main')).toEqual({
      envs: {
        DEBUG_ECHO_DESCRIPTION: 'foo0',
        DEBUG_ECHO_DESCRIPTION_8120FE: 'foo0',
        SITE: 'north',
        SITE_8120FE: 'north',
        AKRI_BROKER_INFO_DIRECTORY: '/run/akri/lab-8120fe',
        AKRI_BROKER_INFO_DIRECTORY_8120FE: '/run/akri/lab-8120fe',
      },
      mounts: [
        {
          containerPath: '/run/akri/lab-8120fe',
          hostPath: path.join(directory, 'state/broker-info/default_lab-8120fe-0'),
          readOnly: false,
        },
      ],
      devices: [],
      annotations: { 'akri.agent.slot-lab-8120fe-0': 'lab-8120fe-0' },
    })
    expect(usage(agent, 'lab-8120fe')).toEqual({ 'lab-8120fe-0': 'node-a', 'lab-8120fe-1': '' })
    await agent.kubelet.admit(pod('p2', resource))
    await expect(agent.kubelet.admit(pod('p3', resource))).rejects.toThrow(
      /UnexpectedAdmissionError.*Available: 0/,
    )
    expect(usage(agent, 'lab-8120fe')).toEqual({
      'lab-8120fe-0': 'node-a',
      'lab-8120fe-1': 'node-a',
    })
    agent.kubelet.remove('p1')
    await eventually(() =>
      expect(usage(agent, 'lab-8120fe')).toEqual({ 'lab-8120fe-0': '', 'lab-8120fe-1': 'node-a' }),
    )
    await agent.kubelet.admit(pod('p4', resource))
  })

  it('A6 A20 follows edits of discovery details and of the capacity', async () => {
    await configure(1, ['foo0'])
    const agent = await start()
    await eventually(() => expect(names(agent)).toEqual(['lab-8120fe']))
    await configure(3, ['foo1', 'foo0'])
    await eventually(() => expect(names(agent)).toEqual(['lab-8120fe', 'lab-a19705']))
    await eventually(() => expect(agent.kubelet.resource('akri.sh/lab-8120fe').allocatable).toBe(3))
    await configure(1, ['foo1'])
    await eventually(() => expect(names(agent)).toEqual(['lab-a19705']))
    await eventually(() => expect(usage(agent, 'lab-a19705')).toEqual({ 'lab-a19705-0': '' }))
  })

  it('R99 A10 restores an edited Instance, and recreates a deleted one at once', async () => {
    await configure(2, ['foo0'])
    const agent = await start()
    const key = objectKey('default', 'lab-8120fe')
    await eventually(() => expect(agent.kubelet.resource('akri.sh/lab-8120fe').allocatable).toBe(2))
    await agent.kubelet.admit(pod('p1', 'akri.sh/lab-8120fe'))
    const before = agent.cluster.instances.get(key)
    expect(Object.values(before?.spec.deviceUsage ?? {})).toEqual(['node-a', ''])
    await agent.cluster.updateInstance(key, { capacity: 5, brokerProperties: { SITE: 'south' } })
    await eventually(() => expect(agent.cluster.instances.get(key)?.spec).toEqual(before?.spec))
    expect(await agent.cluster.leaveInstance(key, before?.spec.nodes[0] ?? expect.fail())).toBe(
      'deleted',
    )
    await eventually(() => expect(agent.cluster.instances.get(key)?.spec).toEqual(before?.spec))
    expect(agent.cluster.instances.get(key)?.metadata.uid).not.toBe(before?.metadata.uid)
  })

  it('A2 R90 keeps Instances over a restart, and releases slots of ended ones', async () => {
    await configure(2, ['foo0'])
    const first = await start()
    await eventually(() => expect(first.kubelet.resource('akri.sh/lab-8120fe').allocatable).toBe(2))
    await first.kubelet.admit(pod('p1', 'akri.sh/lab-8120fe'))
    const before = first.cluster.instances.list()
    await first.close()
    const second = await start()
    await eventually(() =>
      expect(second.kubelet.resource('akri.sh/lab-8120fe').allocatable).toBe(2),
    )
    // The simulated kubelet and its Pods ended with the agent.
    await eventually(() =>
      expect(usage(second, 'lab-8120fe')).toEqual({ 'lab-8120fe-0': '', 'lab-8120fe-1': '' }),
    )
    const lasting = ({ metadata, spec }: Instance) => ({
      uid: metadata.uid,
      spec: { ...spec, deviceUsage: {} },
    })
    expect(second.cluster.instances.list().map(lasting)).toEqual(before.map(lasting))
  })

  it('A2 runs handlers in processes, and keeps Instances if they are killed', async () => {
    await configure(1, ['foo0'])
    const agent = await start({ isolated: true })
    await eventually(() => expect(agent.kubelet.resource('akri.sh/lab-8120fe').allocatable).toBe(1))
    const before = agent.cluster.instances.list()
    const pids = () =>
      readdirSync('/proc').filter((pid) => {
        try {
          return (
            readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('akri-handler.js') &&
            readFileSync(`/proc/${pid}/environ`, 'utf8').includes(directory)
          )
        } catch {
          return false
        }
      })
    const [first] = pids()
    expect(pids()).toHaveLength(1)
    process.kill(Number(first), 'SIGKILL')
    await eventually(() => expect(pids().filter((pid) => pid !== first)).toHaveLength(1))
    const endpoint = () =>
      agent.agent.discovery.status(objectKey('default', 'lab'))?.endpoints[0]?.state
    await eventually(() => expect(endpoint()).toEqual({ phase: 'open', listed: true }))
    expect(agent.cluster.instances.list()).toEqual(before)
    expect(agent.kubelet.resource('akri.sh/lab-8120fe').allocatable).toBe(1)
    await agent.close()
    expect(pids()).toEqual([])
    running = undefined
  })

  it('shows a problem in the status, and goes on with everything else', async () => {
    await writeFile(
      file(),
      ['bad: 1', 'descriptions: [foo0]']
        .map(
          (details, n) =>
            `apiVersion: akri.sh/v0\nkind: Configuration\nmetadata: { name: lab${n} }\n` +
            `spec: { discoveryHandler: { name: debugEcho, discoveryDetails: '${details}' } }`,
        )
        .join('\n---\n'),
    )
    const agent = await start()
    await eventually(() => expect(names(agent)).toEqual(['lab1-8120fe']))
    await eventually(() => {
      const status = agent.cluster.configurations.get(objectKey('default', 'lab0'))?.status
      expect(status?.conditions.find(({ type }) => type === 'Discovering')).toMatchObject({
        status: 'False',
        reason: 'InvalidDetails',
        message: expect.stringContaining('descriptions'),
      })
    })
    const failing = agent.cluster.configurations.get(objectKey('default', 'lab0'))
    expect(failing && agent.problemPlace(failing, 'metadata.name')).toEqual({
      file: file(),
      place: { line: 4, column: 46 },
    })
  })

  it('applies an edit as soon as its state can be written again', async () => {
    await configure(1, ['foo0'])
    const lines: string[] = []
    const log = {
      ...silentLogger,
      error: (_fields: unknown, message: string) => lines.push(message),
    }
    const agent = await start({ log: { ...log, child: () => log } })
    await eventually(() => expect(names(agent)).toEqual(['lab-8120fe']))
    // A rename cannot replace a directory.
    const state = path.join(directory, 'state/cluster.json')
    await rm(state)
    await mkdir(state)
    await configure(1, ['foo1'], 'other')
    await eventually(() => expect(lines).toContain('manifests not applied'))
    expect(names(agent)).toEqual(['lab-8120fe'])
    await rmdir(state)
    await eventually(() => expect(names(agent)).toEqual(['other-a19705']))
  })

  it('R69 shows a report to watchers of Instances, however soon its broker ends', async () => {
    await configure(1, ['foo0'])
    const { cluster, kubelet } = await start()
    const seen: unknown[] = []
    const current = () => cluster.instances.list()[0]?.status?.brokerInfo
    cluster.instances.onChange(() => seen.push(current()), new AbortController().signal)
    const resource = 'akri.sh/lab-8120fe'
    await eventually(() => expect(kubelet.resource(resource).allocatable).toBe(1))
    const [mount] = (await kubelet.admit(pod('p', resource))).get('main')?.mounts ?? []
    await writeFile(path.join(mount?.hostPath ?? '', 'state'), 'done')
    kubelet.remove('p')
    await eventually(() => expect(seen).toContainEqual({ state: 'done' }))
    await eventually(() => expect(current()).toEqual({}))
  })
})
