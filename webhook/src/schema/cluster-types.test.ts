import { BUNDLED_TYPES } from '@akrijs/api'
import { FakeApiServer } from '@akrijs/kube/testing'
import { silentLogger, systemClock } from '@akrijs/runtime'
import { ManualClock } from '@akrijs/runtime/testing'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { ClusterTypes } from './cluster-types.js'

// The API server of the end-to-end tests is older than OpenAPI 3. The fake API server answers as
// its specification says.

const PREFIX = '#/components/schemas/'
const fields = (...names: string[]) => ({
  properties: Object.fromEntries(names.map((name) => [name, { type: 'string' }])),
})
const CORE = {
  'io.k8s.api.core.v1.PodSpec': fields('hostname', 'brandNew'),
  'io.k8s.api.core.v1.ServiceSpec': fields('type'),
}
const template = {
  properties: {
    template: { allOf: [{ $ref: `${PREFIX}io.k8s.api.core.v1.PodSpec` }], default: {} },
  },
}
const document = (schemas: object) => ({ openapi: '3.0.0', components: { schemas } })

let api: FakeApiServer
let clock: ManualClock
let stop: AbortController
let types: ClusterTypes
let running: Promise<void>

beforeEach(async () => {
  api = new FakeApiServer(systemClock)
  const documents: [string, unknown][] = [
    ['/version', { gitVersion: 'v1.40.0' }],
    [
      '/openapi/v3',
      {
        paths: {
          'api/v1': { serverRelativeURL: '/openapi/v3/api/v1?hash=A' },
          'apis/apps/v1': { serverRelativeURL: '/openapi/v3/apis/apps/v1?hash=B' },
          'apis/batch/v1': { serverRelativeURL: '/openapi/v3/apis/batch/v1?hash=C' },
          'apis/akri.sh/v0': { serverRelativeURL: '/openapi/v3/apis/akri.sh/v0?hash=D' },
        },
      },
    ],
    ['/openapi/v3/api/v1?hash=A', document(CORE)],
    [
      '/openapi/v3/apis/apps/v1?hash=B',
      document({ 'io.k8s.api.apps.v1.DeploymentSpec': template }),
    ],
    ['/openapi/v3/apis/batch/v1?hash=C', document({ 'io.k8s.api.batch.v1.JobSpec': template })],
    [
      '/openapi/v2',
      {
        definitions: {
          ...CORE,
          'io.k8s.api.apps.v1.DeploymentSpec': template,
          'io.k8s.api.batch.v1.JobSpec': template,
        },
      },
    ],
  ]
  for (const [path, answer] of documents) api.documents.set(path, answer)
  const client = await api.open()
  clock = new ManualClock()
  stop = new AbortController()
  types = new ClusterTypes({ client, clock, log: silentLogger })
})

afterEach(async () => {
  stop.abort()
  await running
  await api.close()
})

/** The paths of the requests that came, with their queries. */
const asked = () =>
  api.requests.map(({ path, query }) => path + (query.size === 0 ? '' : `?${query}`))

async function start() {
  running = types.run(stop.signal)
  await types.attempted
  await clock.untilSleeping()
}

/** Waits for the next attempt. */
async function again() {
  api.requests.length = 0
  await clock.advance(5 * 60_000)
  await clock.untilSleeping()
}

describe('the types of the cluster', () => {
  it('are the bundled types until the cluster has described its types', async () => {
    expect([types.source, types.current]).toEqual(['bundled', BUNDLED_TYPES])
    await start()
    expect([types.source, types.current.version]).toEqual(['cluster', 'v1.40.0'])
  })

  it('are read from OpenAPI 3, so that fields of a newer cluster are known', async () => {
    await start()
    expect(types.current.types['io.k8s.api.core.v1.PodSpec']).toHaveProperty('brandNew')
    expect(asked()).toEqual([
      '/version',
      '/openapi/v3',
      '/openapi/v3/api/v1?hash=A',
      '/openapi/v3/apis/batch/v1?hash=C',
      '/openapi/v3/apis/apps/v1?hash=B',
    ])
  })

  it.each<[string, unknown]>([
    ['has no OpenAPI 3', undefined],
    [
      'does not have all of it there',
      { paths: { 'api/v1': { serverRelativeURL: '/openapi/v3/api/v1?hash=A' } } },
    ],
    [
      'has it at another server',
      { paths: { 'api/v1': { serverRelativeURL: '@elsewhere.example/openapi' } } },
    ],
  ])('are read from OpenAPI 2 if the cluster %s', async (_what, index) => {
    api.documents.set('/openapi/v3', index)
    await start()
    expect(types.source).toBe('cluster')
    expect(asked()).toContain('/openapi/v2')
  })

  it('are read again when the version of the cluster changes, and only then', async () => {
    await start()
    await again()
    expect(asked()).toEqual(['/version'])
    api.documents.set('/version', { gitVersion: 'v1.41.0' })
    await again()
    expect(asked()).toContain('/openapi/v3')
    expect(types.current.version).toBe('v1.41.0')
  })

  it('stay as they were while the cluster answers nonsense, and are requested again', async () => {
    api.documents.set('/openapi/v3', undefined)
    api.documents.set('/openapi/v2', { definitions: CORE })
    await start()
    expect(types.source).toBe('bundled')
    api.documents.set('/openapi/v2', undefined)
    await again()
    api.documents.set('/version', { message: 'hello' })
    await again()
    expect(types.source).toBe('bundled')
    api.documents.set('/version', { gitVersion: 'v1.40.0' })
    api.documents.set('/openapi/v2', {
      definitions: {
        ...CORE,
        'io.k8s.api.apps.v1.DeploymentSpec': template,
        'io.k8s.api.batch.v1.JobSpec': template,
      },
    })
    await again()
    expect(types.source).toBe('cluster')
  })
})
