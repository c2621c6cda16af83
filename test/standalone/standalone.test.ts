import { mkdir, mkdtemp, rm, rmdir, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
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
    const discarded = 'state of another node discarded'
    expect(warned).toContainEqual({ node: 'n2', previousNodes: ['n1'], message: discarded })
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

  it('has the place of what a handler refuses, and goes on with everything else', async () => {
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
    const place = { line: 4, column: 46 }
    await eventually(() => {
      const failing = agent.cluster.configurations.get(objectKey('default', 'lab0'))
      expect(failing && agent.problemPlace(failing, 'metadata.name')).toEqual({
        file: file(),
        place,
      })
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
})
