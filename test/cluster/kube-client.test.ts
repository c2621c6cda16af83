import { INSTANCES } from '@akrijs/api'
import { pointer, Resource } from '@akrijs/kube'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
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
  })

  describe('writes', () => {
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
  })

  it('shows warnings of the server', async () => {
    const warnings: string[] = []
    const client = await clientOfCluster(undefined, { onWarning: (text) => warnings.push(text) })
    // Deprecated since 1.19.
    await client.request({ method: 'GET', path: '/api/v1/componentstatuses' })
    client.close()
    expect(warnings).toEqual([expect.stringMatching(/ComponentStatus is deprecated/)])
  })
})
