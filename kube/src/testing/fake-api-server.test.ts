import { systemClock } from '@akrijs/runtime'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { ApiClient } from '../api-client.js'
import { objectKey } from '../objects.js'
import { Resource } from '../resource.js'
import { failure } from './failure.js'
import { FakeApiServer } from './fake-api-server.js'

// The cluster tests hold a real API server to the same rules.

describe('the fake API server', () => {
  const key = objectKey('n', 'a')
  const kind = { group: 'akri.test', version: 'v1', plural: 'things' }
  let server: FakeApiServer
  let client: ApiClient
  let things: Resource

  beforeEach(async () => {
    server = new FakeApiServer(systemClock)
    client = await server.open()
    things = new Resource(client, kind)
  })

  afterEach(() => server.close())

  const create = (more: object = {}) =>
    things.create('n', { metadata: { name: 'a' }, ...more }) as Promise<{
      metadata: { uid: string; resourceVersion: string }
    }>

  it('refuses a second object of a name, and changes an absent object', async () => {
    await create()
    expect(await failure(create())).toMatchObject({ status: 409, reason: 'AlreadyExists' })
    const absent = objectKey('n', 'absent')
    expect(await failure(things.patch(absent, 'merge', {}))).toMatchObject({ status: 404 })
    expect(await things.delete(absent)).toBe(false)
  })

  it('refuses a write and a deletion of another version or uid', async () => {
    const { metadata } = await create()
    await things.patch(key, 'merge', { spec: { x: 1 } })
    expect(await failure(things.replace(key, { metadata }))).toMatchObject({ status: 409 })
    for (const precondition of [{ uid: 'other' }, { resourceVersion: metadata.resourceVersion }])
      expect(await failure(things.delete(key, precondition))).toMatchObject({ status: 409 })
    expect(await things.delete(key, { uid: metadata.uid })).toBe(true)
  })

  it('keeps status and spec apart, and counts changes of the spec', async () => {
    await create({ spec: { x: 1 }, status: { y: 1 } })
    expect(await things.get(key)).not.toHaveProperty('status')
    const both = { spec: { x: 2 }, status: { y: 2 } }
    await things.patch(key, 'merge', both, { subresource: 'status' })
    expect(await things.get(key)).toMatchObject({
      metadata: { generation: 1 },
      spec: { x: 1 },
      status: { y: 2 },
    })
    await things.patch(key, 'merge', both)
    expect(await things.get(key)).toMatchObject({ metadata: { generation: 2 }, spec: { x: 2 } })
  })

  it('raises no version if a write changes nothing', async () => {
    const { metadata } = await create({ spec: { x: 1 } })
    const test = { op: 'test', path: '/spec/x', value: 1 } as const
    expect(await things.patch(key, 'json', [test])).toMatchObject({ metadata })
  })

  it('keeps what a custom resource has and what Go reads', async () => {
    server.store.kept = ({ unknown: _unknown, ...known }) => known
    await create({ unknown: 1, spec: { text: 'half \ud800' } })
    const stored = await things.get(key)
    expect(stored).toMatchObject({ spec: { text: 'half \ufffd' } })
    expect(stored).not.toHaveProperty('unknown')
  })

  it('keeps a deleted object until its last finalizer is gone', async () => {
    server.put('/apis/akri.test/v1/namespaces/n/things/a', { metadata: { finalizers: ['f'] } })
    await things.delete(key)
    expect(await things.get(key)).toHaveProperty('metadata.deletionTimestamp')
    await things.patch(key, 'merge', { metadata: { finalizers: null } })
    expect(await things.get(key)).toBeUndefined()
  })

  it('takes fields away that their manager does not apply any more', async () => {
    const object = { metadata: { name: 'a', labels: { x: '1', y: '1' } } }
    await things.apply(key, object, 'one')
    await things.apply(key, { metadata: { name: 'a', labels: { y: '1' } } }, 'other')
    await things.apply(key, { metadata: { name: 'a' } }, 'one')
    expect(await things.get(key)).toMatchObject({ metadata: { labels: { y: '1' } } })
    expect(await things.get(key)).not.toHaveProperty('metadata.labels.x')
  })
})
