import { createUdevHandler } from '@akrijs/handler-udev'
import type { ApiClient } from '@akrijs/kube'
import { FakeApiServer } from '@akrijs/kube/testing'
import { systemClock } from '@akrijs/runtime'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { configurationObject, existingFields, instanceObject } from '../testing/migrated-objects.js'
import { directionOf, migrateCluster } from './migrate.js'

const INSTANCE = '/apis/akri.sh/v0/namespaces/plant/instances/cam-8120fe'
const CONFIGURATION = '/apis/akri.sh/v0/namespaces/plant/configurations/cam'
const AGENT = '/api/v1/namespaces/akri/pods/agent-a'

describe('akri migrate', () => {
  let server: FakeApiServer
  let client: ApiClient
  let printed: string[]

  beforeEach(async () => {
    server = new FakeApiServer(systemClock)
    client = await server.open()
    printed = []
  })

  afterEach(() => server.close())

  function migrate(
    direction: 'check' | 'forward' | 'back',
    { write = false, ignoreRunning = false } = {},
  ) {
    printed = []
    const { signal } = new AbortController()
    const print = (line: string) => void printed.push(line)
    const load = async (name: string) => (name === 'udev' ? createUdevHandler() : undefined)
    return migrateCluster(direction, { write, ignoreRunning }, { client, signal, print, load })
  }
  const writes = () => server.requests.filter(({ method }) => method !== 'GET')
  const putInstance = (spec: object, metadata: object) =>
    server.put(INSTANCE, instanceObject(spec, metadata))
  const ours = {
    manager: 'akri-agent',
    operation: 'Update',
    fieldsV1: { 'f:spec': { 'f:capacity': {} } },
  }

  it('prints a plan, and writes it with --write only', async () => {
    const managedFields = existingFields('node-a-fin')
    putInstance({}, { finalizers: ['node-a'], managedFields })
    await migrate('forward')
    expect(printed).toEqual([
      'Forward, from Akri 0.13 to akri.js:',
      expect.stringMatching(
        /^WHAT +OBJECT +TEXT\nchange +Instance plant\/cam-8120fe +remove the finalizers node-a$/,
      ),
    ])
    expect(writes()).toEqual([])
    await migrate('forward', { write: true })
    expect(printed.at(-1)).toBe('1 of 1 object changed')
    expect(server.objects.get(INSTANCE)?.metadata.finalizers).toBeUndefined()
    await migrate('forward')
    expect(printed.at(-1)).toBe('nothing to change')
  })

  it('writes an Instance as the existing system does, and is done then', async () => {
    const deviceUsage = { 'cam-8120fe-0': 'C:0:node-a', 'cam-8120fe-1': '' }
    putInstance({ deviceUsage }, { managedFields: [ours] })
    await migrate('back', { write: true })
    const { spec, metadata } = server.objects.get(INSTANCE) ?? expect.fail()
    expect(spec).toEqual(instanceObject({ deviceUsage: { 'cam-8120fe-0': 'C:cam-0:node-a' } }).spec)
    expect(metadata.managedFields).toMatchObject([{ manager: 'node-a' }, { manager: 'dp-node-a' }])
    await migrate('back')
    expect(printed).toEqual(['Back, from akri.js to Akri 0.13:', 'nothing to change'])
  })

  it('leaves no status behind on the way back', async () => {
    const conditions = [
      { type: 'Ready', status: 'True', reason: 'R', message: '', lastTransitionTime: 'x' },
    ]
    const slots = { total: 1, claimed: 0 }
    const status = { observedGeneration: 1, conditions, devices: 1, slots, nodes: {} }
    server.put(CONFIGURATION, { ...configurationObject(), status })
    const brokerJob = { name: 'j', specHash: 'h' }
    server.put(INSTANCE, {
      ...instanceObject({}, { managedFields: [ours] }),
      status: { brokerJob, brokerInfo: { a: 'b' } },
    })
    await migrate('back', { write: true })
    expect(server.objects.get(CONFIGURATION)?.status).toBeUndefined()
    expect(server.objects.get(INSTANCE)?.status).toEqual({ brokerJob })
    await migrate('back')
    expect(printed.at(-1)).toBe('nothing to change')
  })

  it('writes nothing while there is an obstacle', async () => {
    putInstance({}, { managedFields: [ours] })
    server.put(AGENT, {
      metadata: { labels: { 'app.kubernetes.io/name': 'akri-agent' } },
      spec: { nodeName: 'node-a' },
      status: { phase: 'Running' },
    })
    await expect(migrate('back', { write: true })).rejects.toThrow(
      '1 obstacle; nothing was written',
    )
    expect(printed.join()).toContain('Pod akri/agent-a')
    expect(writes()).toEqual([])
    await migrate('check')
    expect(printed.join()).toMatch(/Forward.*Back.*warning +Pod akri\/agent-a/s)
    await migrate('back', { write: true, ignoreRunning: true })
    expect(printed.at(-1)).toBe('1 of 1 object changed')
  })

  it('goes on after an object that has changed since the plan, and fails at the end', async () => {
    const configuration = configurationObject({ brokerProperties: null })
    server.put(CONFIGURATION, configuration)
    putInstance({}, { managedFields: [ours] })
    server.before = ({ method, path }) => {
      if (method === 'PATCH' && path === CONFIGURATION) server.put(CONFIGURATION, configuration)
    }
    await expect(migrate('back', { write: true })).rejects.toThrow(
      '1 change failed: run the command again',
    )
    expect(printed.join('\n')).toMatch(/Configuration plant\/cam was not changed: /)
    expect(printed.at(-1)).toBe('1 of 2 objects changed')
  })

  it('warns of udev rules that mean something else', async () => {
    const discoveryDetails = JSON.stringify({ udevRules: ['SUBSYSTEMS!="usb"'] })
    const discoveryHandler = { name: 'udev', discoveryDetails }
    server.put(CONFIGURATION, configurationObject({ discoveryHandler }))
    await migrate('forward')
    expect(printed.join()).toMatch(
      /warning +Configuration plant\/cam +.*udevRules\[0\].*SUBSYSTEMS/,
    )
  })

  it.each([
    ['sideways', false, /"sideways" is no direction/],
    ['check', true, /check writes nothing/],
  ])('refuses %s with write = %j', (text, write, message) => {
    expect(() => directionOf(text, { write })).toThrow(message)
  })
})
