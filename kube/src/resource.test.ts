import { systemClock } from '@akrijs/runtime'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { ObjectNameError } from './errors.js'
import { objectKey } from './objects.js'
import { Resource } from './resource.js'
import { failure } from './testing/failure.js'
import { answerWith, FakeApiServer } from './testing/fake-api-server.js'

const api = new FakeApiServer(systemClock)
const serve: typeof api.listen = (...args) => api.listen(...args)
const connect: typeof api.connect = (...args) => api.connect(...args)

beforeEach(() => {
  api.answer = answerWith(200, {})
})

afterEach(() => api.close())

describe('paths', () => {
  it('escapes names and values', async () => {
    const client = connect(new URL('/prefix/', await serve()))
    let url: string | undefined
    api.answer = (request, response) => {
      url = request.url
      response.end('{}')
    }
    const things = new Resource(client, { group: 'a.b', version: 'v1', plural: 'things' })
    await things.get(objectKey('name space', 'x/../y?z#ü%'))
    expect(url).toBe(
      '/prefix/apis/a.b/v1/namespaces/name%20space/things/x%2F..%2Fy%3Fz%23%C3%BC%25',
    )
    await client.request({
      method: 'GET',
      path: '/x',
      query: { labelSelector: 'a=b&c,d', limit: 5, continue: undefined },
    })
    expect(url).toBe('/prefix/x?labelSelector=a%3Db%26c%2Cd&limit=5')
  })

  it('supports cluster-scoped kinds and the core group', async () => {
    const client = connect(await serve())
    let url: string | undefined
    api.answer = (request, response) => {
      url = request.url
      response.end('{}')
    }
    await new Resource(client, { group: '', version: 'v1', plural: 'nodes' }).get(
      objectKey('', 'a'),
    )
    expect(url).toBe('/api/v1/nodes/a')
  })

  it.each(['', '.', '..'])(
    'sends no request for an object named "%s": the path would be the path of other objects',
    async (name) => {
      const client = connect(await serve())
      let requests = 0
      api.answer = (_request, response) => {
        requests++
        response.end('{}')
      }
      const things = new Resource(client, { group: 'a.b', version: 'v1', plural: 'things' })
      for (const work of [
        things.get(objectKey('n', name)),
        things.delete(objectKey('n', name)),
        things.replace(objectKey('n', name), {}),
        things.patch(objectKey('n', name), 'merge', {}),
        things.apply(objectKey('n', name), {}, 'm'),
      ])
        expect(await failure(work)).toBeInstanceOf(ObjectNameError)
      expect(requests).toBe(0)
    },
  )
})
