import { INSTANCES } from '@akrijs/api'
import { type ApiError, LEASES, LeaderElection, pointer, Resource } from '@akrijs/kube'
import { systemClock } from '@akrijs/runtime'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { eventually } from '../support/eventually.js'
import { clientOfCluster } from './support/client.js'
import { describeOnCluster, OwnNamespace, refusal, uniqueName } from './support/cluster.js'
import { createInstance, type InstanceObject, instanceOf } from './support/instances.js'

describeOnCluster('the client on an API server', () => {
  let home: OwnNamespace
  let instances: Resource

  beforeAll(async () => {
    home = await OwnNamespace.make()
    instances = new Resource(home.client, INSTANCES)
  })

  afterAll(() => home.remove())

  const created = (spec: object = {}) => createInstance(home, spec)

  describe('patches', () => {
    it('by JSON are refused with 422 if a test fails, and write nothing', async () => {
      const { key: ownKey, object } = await created({ deviceUsage: { 'slot-0': '' } })
      const path = pointer('spec', 'deviceUsage', 'slot-0')
      const claim = (value: string) =>
        instances.patch(ownKey, 'json', [
          { op: 'test', path, value: '' },
          { op: 'replace', path, value },
        ])
      expect(await claim('node-a')).toMatchObject({ spec: { deviceUsage: { 'slot-0': 'node-a' } } })
      const error = await refusal(claim('node-b'))
      expect(error).toMatchObject({ status: 422, reason: 'Invalid' })
      const after = (await instances.get(ownKey)) as InstanceObject
      expect(after.spec.deviceUsage).toEqual({ 'slot-0': 'node-a' })
      expect(after.metadata.uid).toBe(object.metadata.uid)
    })

    it('by JSON let a single claim of a slot succeed', async () => {
      const { key: ownKey } = await created({ deviceUsage: { 'slot-0': '' } })
      const path = pointer('spec', 'deviceUsage', 'slot-0')
      const outcomes = await Promise.allSettled(
        Array.from({ length: 20 }, (_, i) =>
          instances.patch(ownKey, 'json', [
            { op: 'test', path, value: '' },
            { op: 'replace', path, value: `node-${i}` },
          ]),
        ),
      )
      expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
      for (const outcome of outcomes)
        if (outcome.status === 'rejected')
          expect([409, 422]).toContain((outcome.reason as ApiError).status)
    })

    it('by JSON find names with slashes and tildes', async () => {
      const { key: ownKey } = await created({ deviceUsage: { 'a/b~c': '' } })
      const patched = await instances.patch(ownKey, 'json', [
        { op: 'replace', path: pointer('spec', 'deviceUsage', 'a/b~c'), value: 'node-a' },
      ])
      expect(patched).toMatchObject({ spec: { deviceUsage: { 'a/b~c': 'node-a' } } })
    })

    it('by merging remove keys with null, and keep other keys', async () => {
      const { key: ownKey } = await created({ deviceUsage: { a: '1', b: '2' } })
      const patched = (await instances.patch(ownKey, 'merge', {
        spec: { deviceUsage: { a: null, c: '3' } },
      })) as InstanceObject
      expect(patched.spec).toMatchObject({ deviceUsage: { b: '2', c: '3' }, capacity: 2 })
    })

    it('by applying create the object, and remove fields that were applied before', async () => {
      const name = uniqueName()
      const apply = (brokerProperties: object) =>
        instances.apply(home.key(name), instanceOf(home.name, name, { brokerProperties }), 'tests')
      await apply({ A: '1', B: '2' })
      await instances.patch(home.key(name), 'merge', { spec: { brokerProperties: { other: 'x' } } })
      expect(await apply({ B: '3' })).toMatchObject({
        spec: { brokerProperties: { B: '3', other: 'x' } },
      })
      const { spec } = (await instances.get(home.key(name))) as InstanceObject
      expect(spec.brokerProperties).toEqual({ B: '3', other: 'x' })
    })

    it('of an absent object are refused with 404', async () => {
      expect(await refusal(instances.patch(home.key('nothing'), 'merge', {}))).toMatchObject({
        status: 404,
        reason: 'NotFound',
      })
      expect(await instances.get(home.key('nothing'))).toBeUndefined()
    })
  })

  describe('writes', () => {
    it('create an object once', async () => {
      const { object } = await created()
      const again = instances.create(home.name, instanceOf(home.name, object.metadata.name))
      expect(await refusal(again)).toMatchObject({ status: 409, reason: 'AlreadyExists' })
    })

    it('replace only the version that was read', async () => {
      const { key: ownKey, object } = await created()
      await instances.replace(ownKey, { ...object, spec: { ...object.spec, capacity: 3 } })
      const late = instances.replace(ownKey, { ...object, spec: { ...object.spec, capacity: 4 } })
      expect(await refusal(late)).toMatchObject({
        status: 409,
        reason: 'Conflict',
        kind: 'transient',
      })
    })

    it('delete only a matching object, and tell whether it existed', async () => {
      const { key: ownKey, object } = await created()
      const { uid, resourceVersion } = object.metadata
      await instances.patch(ownKey, 'merge', { spec: { capacity: 3 } })
      expect(await refusal(instances.delete(ownKey, { uid: 'another' }))).toMatchObject({
        status: 409,
        reason: 'Conflict',
      })
      expect(await refusal(instances.delete(ownKey, { uid, resourceVersion }))).toMatchObject({
        status: 409,
      })
      expect(await instances.delete(ownKey, { uid })).toBe(true)
      expect(await instances.delete(ownKey)).toBe(false)
    })

    it('to an absent namespace are refused with 404', async () => {
      expect(
        await refusal(
          instances.create('akri-test-nowhere', {
            ...instanceOf(home.name, 'a'),
            metadata: { name: 'a' },
          }),
        ),
      ).toMatchObject({
        status: 404,
      })
    })
  })

  it('shows warnings of the server', async () => {
    const warnings: string[] = []
    const client = await clientOfCluster(undefined, { onWarning: (text) => warnings.push(text) })
    // Deprecated since 1.19.
    await client.request({ method: 'GET', path: '/api/v1/componentstatuses' })
    client.close()
    expect(warnings).toEqual([expect.stringMatching(/ComponentStatus is deprecated/)])
  })

  it('elects one of two leaders, which renews its Lease and gives it back', async () => {
    const name = uniqueName()
    const leading: string[] = []
    let atOnce = 0
    function candidate(identity: string) {
      const stop = new AbortController()
      const place = {
        client: home.client,
        clock: systemClock,
        namespace: home.name,
        name,
        identity,
      }
      const election = new LeaderElection({ ...place, onError: () => {} })
      const ran = election.run(stop.signal, async (turn) => {
        leading.push(identity)
        atOnce = Math.max(atOnce, leading.length)
        await new Promise((resolve) => turn.addEventListener('abort', resolve, { once: true }))
        leading.splice(leading.indexOf(identity), 1)
      })
      return {
        stop() {
          stop.abort()
          return ran
        },
      }
    }
    const leads = (identity: string) => eventually(() => expect(leading).toEqual([identity]))
    const lease = async () =>
      (await new Resource(home.client, LEASES).get(home.key(name))) as {
        readonly spec: { readonly holderIdentity: string; readonly renewTime: string }
      }
    const a = candidate('a')
    await leads('a')
    const b = candidate('b')
    const { renewTime } = (await lease()).spec
    await eventually(async () => expect((await lease()).spec.renewTime).not.toBe(renewTime))
    expect(leading).toEqual(['a'])
    await a.stop()
    // Long before the time of the Lease is over: it was given back.
    await leads('b')
    expect((await lease()).spec.holderIdentity).toBe('b')
    await b.stop()
    expect(atOnce).toBe(1)
  })
})
