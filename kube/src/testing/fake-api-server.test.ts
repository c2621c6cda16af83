import { systemClock } from '@akrijs/runtime'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { ApiClient } from '../api-client.js'
import { type JsonPatch, objectKey } from '../objects.js'
import { Resource } from '../resource.js'
import { failure } from './failure.js'
import { FakeApiServer } from './fake-api-server.js'
import { applyJsonPatch } from './patches.js'

// The cluster tests hold a real API server to the same rules.

describe('a JSON patch', () => {
  const document = { list: ['a', 'b'], map: { 'x/y': 1, 'm~n': 2 }, empty: '' }

  it.each<[string, JsonPatch, object]>([
    ['adds a key', [{ op: 'add', path: '/new', value: 1 }], { new: 1 }],
    [
      'inserts into a list',
      [{ op: 'add', path: '/list/1', value: 'x' }],
      { list: ['a', 'x', 'b'] },
    ],
    ['appends to a list', [{ op: 'add', path: '/list/-', value: 'x' }], { list: ['a', 'b', 'x'] }],
    ['replaces a value', [{ op: 'replace', path: '/empty', value: 'x' }], { empty: 'x' }],
    ['reads escaped keys', [{ op: 'remove', path: '/map/x~1y' }], { map: { 'm~n': 2 } }],
    ['removes from a list', [{ op: 'remove', path: '/list/0' }], { list: ['b'] }],
    ['goes on after a test that holds', [{ op: 'test', path: '/list', value: ['a', 'b'] }], {}],
  ])('%s', (_what, patch, change) => {
    expect(applyJsonPatch(document, patch)).toEqual({ value: { ...document, ...change } })
  })

  it.each<[string, JsonPatch]>([
    ['a test that does not hold', [{ op: 'test', path: '/empty', value: 'x' }]],
    ['a test of an absent key', [{ op: 'test', path: '/absent', value: undefined }]],
    ['a replacement of an absent key', [{ op: 'replace', path: '/absent', value: 1 }]],
    ['a removal of an absent key', [{ op: 'remove', path: '/map/absent' }]],
    ['an addition below an absent key', [{ op: 'add', path: '/absent/key', value: 1 }]],
    ['an index beyond the list', [{ op: 'add', path: '/list/3', value: 1 }]],
  ])('is refused as a whole for %s', (_what, patch) => {
    const whole: JsonPatch = [{ op: 'add', path: '/new', value: 1 }, ...patch]
    expect(applyJsonPatch(document, whole)).toHaveProperty('refused')
    expect(document).not.toHaveProperty('new')
  })
})

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
