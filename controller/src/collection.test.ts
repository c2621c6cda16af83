import { NODE_REPORTS, parseNodeReport } from '@akrijs/api'
import { ApiClient, CONFIG_MAPS, objectKey } from '@akrijs/kube'
import { silentLogger, systemClock } from '@akrijs/runtime'
import { expect, it } from 'vitest'
import { eventually } from '../../test/support/eventually.js'
import { collectionOf } from './collection.js'
import { parseAppliedObject } from './kubernetes-objects.js'
import { TestApi } from './testing/api.js'

it('keeps the last state of an object that hits a bug in a parser, and follows all others', () => {
  const bug = new TypeError('x is not a function')
  const errors: unknown[] = []
  const access = {
    server: new URL('http://127.0.0.1:9'),
    credentials: async () => ({}),
  }
  const { cache } = collectionOf(
    CONFIG_MAPS,
    (object: unknown) => {
      const parsed = parseAppliedObject(object)
      if (parsed?.metadata.labels?.app === 'poison') throw bug
      return parsed
    },
    {
      client: new ApiClient({
        access,
        clock: systemClock,
        userAgent: 'test',
        onWarning: () => undefined,
      }),
      clock: systemClock,
      log: { ...silentLogger, error: (fields) => errors.push(fields) },
    },
  )
  const put = (name: string, resourceVersion: string, labels = {}) =>
    cache.observe({
      metadata: {
        name,
        namespace: 'plant',
        uid: name,
        resourceVersion,
        creationTimestamp: '2026-01-01T00:00:00Z',
        labels,
      },
    })
  put('a', '1')
  put('a', '2', { app: 'poison' })
  put('b', '3')
  expect(cache.list().map(({ metadata }) => metadata.name)).toEqual(['a', 'b'])
  expect(errors).toEqual([{ path: '/api/v1/configmaps', key: objectKey('plant', 'a'), err: bug }])
})

it('names the command that installs a custom resource that is missing', async () => {
  const lines: [message: string, fields: object][] = []
  const api = new TestApi()
  api.refusal = ({ path }) =>
    path.includes('nodereports') ? { status: 404, message: '404 page not found' } : undefined
  const stop = new AbortController()
  const { cache } = collectionOf(NODE_REPORTS, parseNodeReport, {
    client: await api.open(),
    clock: systemClock,
    log: { ...silentLogger, error: (fields, message) => lines.push([message, fields]) },
  })
  const running = cache.run(stop.signal)
  await eventually(() => expect(lines).not.toEqual([]))
  stop.abort()
  await running
  await api.close()
  const message = expect.stringContaining('nodereports.akri.sh: install it by kubectl apply')
  expect(lines[0]).toEqual([
    'custom resource not installed',
    { err: expect.objectContaining({ message }), retryInMs: expect.any(Number) },
  ])
})
