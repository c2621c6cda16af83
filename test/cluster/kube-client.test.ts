import { INSTANCES } from '@akrijs/api'
import { type ApiError, pointer, Resource } from '@akrijs/kube'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
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
})
