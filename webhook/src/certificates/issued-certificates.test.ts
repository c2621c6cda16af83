import { FakeApiServer, type StoredObject } from '@akrijs/kube/testing'
import { silentLogger, systemClock } from '@akrijs/runtime'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { eventually } from '../../../test/support/eventually.js'
import { MissingSecretError } from '../errors.js'
import { IssuedCertificates } from './issued-certificates.js'
import { readSecret } from './stored-certificates.js'
import type { KeyPair } from './x509.js'

const SECRETS = '/api/v1/namespaces/akri/secrets'
const SECRET = `${SECRETS}/akri-webhook-configuration`
/** As the installer creates it. */
const EMPTY = { metadata: { labels: { 'app.kubernetes.io/name': 'akri-webhook' } }, type: 'Opaque' }

describe('the own certificates of the webhook', () => {
  let api: FakeApiServer
  let stop: AbortController
  let running: Promise<void>
  let renewed: KeyPair[]
  let warnings: unknown[]

  beforeEach(() => {
    api = new FakeApiServer(systemClock)
    // The rights of the account: no Secret can be created, and no other one written.
    api.refusal = ({ method, path }) =>
      method === 'GET' || (method === 'PUT' && path === SECRET)
        ? undefined
        : { status: 403, reason: 'Forbidden', message: `${method} ${path} is not allowed` }
    stop = new AbortController()
    running = Promise.resolve()
    renewed = []
    warnings = []
  })

  afterEach(async () => {
    stop.abort()
    await running
    await api.close()
  })

  async function start(): Promise<void> {
    const certificates = new IssuedCertificates({
      client: await api.open(),
      clock: systemClock,
      log: { ...silentLogger, warn: ({ err }) => void warnings.push(err) },
      namespace: 'akri',
      secret: 'akri-webhook-configuration',
      names: ['akri-webhook-configuration.akri.svc'],
      registration: undefined,
      onRenewed: (pair) => void renewed.push(pair),
    })
    running = certificates.run(stop.signal)
    await api.untilWatched(1)
  }

  const stored = () => readSecret(api.objects.get(SECRET))
  const written = (): StoredObject => api.objects.get(SECRET) ?? expect.fail('no Secret')

  it('are written into the empty Secret of the installer, whose type and labels stay', async () => {
    api.put(SECRET, EMPTY)
    await start()
    await eventually(() => expect(renewed).toHaveLength(1))
    expect(stored().server).toEqual(renewed[0])
    expect(written()).toMatchObject({ ...EMPTY, data: { 'tls.crt': expect.any(String) } })
    expect(api.sent('POST')).toEqual([])
  })

  it('wait for the Secret, and create none', async () => {
    await start()
    await eventually(() => expect(warnings).toEqual([expect.any(MissingSecretError)]))
    expect(String(warnings[0])).toContain(
      'there is no Secret akri/akri-webhook-configuration, and the webhook may create none: ' +
        'kubectl -n akri create secret generic akri-webhook-configuration',
    )
    expect(renewed).toEqual([])
    api.put(SECRET, EMPTY)
    await eventually(() => expect(renewed).toHaveLength(1))
    expect(api.requests.filter(({ method }) => method !== 'GET')).toHaveLength(1)
  })

  it.each([
    ['emptied', () => api.put(SECRET, EMPTY)],
    [
      'deleted and created again',
      () => {
        api.remove(SECRET)
        api.put(SECRET, { ...EMPTY, metadata: { uid: 'another' } })
      },
    ],
  ])('keep their authority in a Secret that is %s', async (_what, lose) => {
    api.put(SECRET, EMPTY)
    await start()
    await eventually(() => expect(renewed).toHaveLength(1))
    const before = stored()
    lose()
    await eventually(() => expect(stored().authorities ?? []).not.toEqual([]))
    // The certificate of the other replica stays trusted.
    expect(stored().authorities).toEqual(expect.arrayContaining([...(before.authorities ?? [])]))
  })
})
