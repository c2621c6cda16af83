import { INSTANCES, type Instance } from '@akrijs/api'
import { silentLogger } from '@akrijs/runtime'
import { ManualClock } from '@akrijs/runtime/testing'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { ClusterState } from './cluster-state.js'
import { OutdatedResourceError } from './errors.js'
import { StatusWriter } from './status-writer.js'
import { TestApi, withoutStatus } from './testing/api.js'
import { T0, testInstance } from './testing/objects.js'

const PATH = '/apis/akri.sh/v0/namespaces/plant/instances'
const FIRST = testInstance(['a'])
const SECOND = testInstance(['a'], { name: 'cam-a19705' })
const STATUS = { brokerJob: { name: 'j', specHash: 'h' } }

describe('the writer of statuses', () => {
  let api: TestApi
  let state: ClusterState
  let clock: ManualClock
  let writer: StatusWriter<Instance>
  let lines: [message: string, fields: object][]
  const { signal } = new AbortController()

  beforeEach(async () => {
    api = new TestApi()
    for (const instance of [FIRST, SECOND])
      api.put(`${PATH}/${instance.metadata.name}`, { ...instance })
    state = (await api.start()).state
    clock = new ManualClock(T0)
    lines = []
    const note = (fields: object, message: string) => void lines.push([message, fields])
    const log = { ...silentLogger, error: note, info: note }
    writer = new StatusWriter({ kind: INSTANCES, collection: state.instances, clock, log })
  })

  afterEach(async () => {
    await api.stop()
  })

  const write = (instance: Instance) => {
    const { uid } = instance.metadata
    return writer.write(instance, { metadata: { uid }, status: STATUS }, signal)
  }

  it('gives the object after the write', async () => {
    expect(await write(FIRST)).toMatchObject({ status: STATUS })
    expect(lines).toEqual([])
  })

  it('names the command that updates the custom resources, once for all objects', async () => {
    api.refusal = withoutStatus
    for (const instance of [FIRST, SECOND, FIRST])
      await expect(write(instance)).rejects.toThrow(OutdatedResourceError)
    const message = expect.stringContaining(
      'kubectl apply --server-side --force-conflicts -f deploy/helm/akri/crds',
    )
    const err = expect.objectContaining({ code: 'AKRI_ERR_OUTDATED_RESOURCE', message })
    expect(lines).toEqual([['custom resource outdated', { resource: 'instances.akri.sh', err }]])
  })

  it('tries one status in a minute until the custom resource has one', async () => {
    api.refusal = withoutStatus
    const sent = () => api.sent('PATCH').length
    await expect(write(FIRST)).rejects.toThrow(OutdatedResourceError)
    await clock.advance(59_999)
    await expect(write(SECOND)).rejects.toThrow(OutdatedResourceError)
    expect(sent()).toBe(1)
    await clock.advance(1)
    await expect(write(SECOND)).rejects.toThrow(OutdatedResourceError)
    await expect(write(FIRST)).rejects.toThrow(OutdatedResourceError)
    expect(sent()).toBe(2)
    api.refusal = () => undefined
    await clock.advance(60_000)
    expect(await write(FIRST)).toMatchObject({ status: STATUS })
    expect(await write(SECOND)).toMatchObject({ status: STATUS })
    expect(lines.map(([message]) => message)).toEqual([
      'custom resource outdated',
      'custom resource updated',
    ])
  })

  it.each<[string, () => void]>([
    ['has gone', () => api.remove(`${PATH}/cam-8120fe`)],
    [
      'has another object in its place',
      () => {
        const { metadata, ...rest } = FIRST
        api.put(`${PATH}/cam-8120fe`, { ...rest, metadata: { ...metadata, uid: 'another' } })
        api.refusal = withoutStatus
      },
    ],
  ])('writes nothing if the object %s, and blames no custom resource', async (_what, change) => {
    change()
    expect(await write(FIRST)).toBeUndefined()
    expect(lines).toEqual([])
    api.refusal = () => undefined
    expect(await write(SECOND)).toMatchObject({ status: STATUS })
  })
})
