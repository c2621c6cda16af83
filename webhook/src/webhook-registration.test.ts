import { FakeApiServer } from '@akrijs/kube/testing'
import { silentLogger, systemClock, valueAt } from '@akrijs/runtime'
import { ManualClock } from '@akrijs/runtime/testing'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { eventually } from '../../test/support/eventually.js'
import type { FailurePolicy } from './review/reviewer.js'
import { REVIEWED_RULES, WebhookRegistration } from './webhook-registration.js'

const REGISTRATIONS = '/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations'
const base64 = (text: string) => Buffer.from(text).toString('base64')

describe('the registration of the webhook', () => {
  let api: FakeApiServer
  let stop: AbortController
  let running: Promise<void>
  let warnings: string[]

  beforeEach(() => {
    api = new FakeApiServer(systemClock)
    stop = new AbortController()
    running = Promise.resolve()
    warnings = []
  })

  afterEach(async () => {
    stop.abort()
    await running
    await api.close()
  })

  async function start(
    failurePolicy: FailurePolicy = 'Fail',
    clock = systemClock,
  ): Promise<WebhookRegistration> {
    const registration = new WebhookRegistration({
      client: await api.open(),
      clock,
      log: { ...silentLogger, warn: (_fields, message) => void warnings.push(message) },
      name: 'mine',
      failurePolicy,
    })
    running = registration.run(stop.signal)
    await api.untilWatched(1)
    return registration
  }

  const put = (name: string, webhooks: readonly object[]) =>
    api.put(`${REGISTRATIONS}/${name}`, { webhooks })
  const webhooks = (name = 'mine') => api.objects.get(`${REGISTRATIONS}/${name}`)?.webhooks
  const webhook = (name: string, more: object = {}) => ({
    name,
    clientConfig: { service: { name: 'akri' } },
    failurePolicy: 'Fail',
    rules: [{ resources: ['configurations'] }],
    ...more,
  })
  const withoutRules = ({ rules: _, ...rest }: ReturnType<typeof webhook>) => rest

  it('gets authorities and failure policy in each webhook, and keeps the rest', async () => {
    put('mine', [webhook('a', { timeoutSeconds: 5 }), webhook('b', { failurePolicy: 'Ignore' })])
    put('other', [webhook('c')])
    const { rules } = webhook('a')
    const registration = await start('Ignore')
    registration.announce('authority 1')
    const clientConfig = { service: { name: 'akri' }, caBundle: base64('authority 1') }
    await eventually(() =>
      expect(webhooks()).toEqual([
        { name: 'a', clientConfig, failurePolicy: 'Ignore', rules, timeoutSeconds: 5 },
        { name: 'b', clientConfig, failurePolicy: 'Ignore', rules },
      ]),
    )
    expect(webhooks('other')).toEqual([webhook('c')])
  })

  it('gets both again after another program has changed them', async () => {
    put('mine', [webhook('a')])
    const registration = await start()
    registration.announce('authority 1')
    const expected = [
      webhook('a', {
        clientConfig: { service: { name: 'akri' }, caBundle: base64('authority 1') },
      }),
    ]
    await eventually(() => expect(webhooks()).toEqual(expected))
    put('mine', [webhook('a', { failurePolicy: 'Ignore' })])
    await eventually(() => expect(webhooks()).toEqual(expected))
  })

  it('gets the rules that the installer left out once the replica can answer', async () => {
    put('mine', [withoutRules(webhook('a')), webhook('b')])
    put('other', [withoutRules(webhook('c'))])
    const registration = await start()
    registration.announce('authority 1')
    const rulesOf = (name?: string) =>
      [webhooks(name) ?? []].flat().map((found) => valueAt(found, 'rules'))
    await eventually(() => expect(registration.announcedForMs('authority 1')).toBeDefined())
    const others = webhook('b').rules
    expect(rulesOf()).toEqual([undefined, others])
    registration.open()
    await eventually(() => expect(rulesOf()).toEqual([REVIEWED_RULES, others]))
    // An upgrade from a release that has the rules removes them.
    put('mine', [webhook('a', { rules: [] })])
    await eventually(() => expect(rulesOf()).toEqual([REVIEWED_RULES]))
    expect(rulesOf('other')).toEqual([undefined])
  })

  it('is not written if it is right', async () => {
    const right = { clientConfig: { caBundle: base64('authority 1') } }
    put('mine', [webhook('a', right)])
    const registration = await start()
    registration.announce('authority 1')
    registration.open()
    await eventually(() => expect(registration.announcedForMs('authority 1')).toBeDefined())
    // A later change is seen, and needs no write either.
    put('mine', [webhook('a', { ...right, timeoutSeconds: 7 })])
    await eventually(() => expect(JSON.stringify(webhooks())).toContain('7'))
    expect(api.sent('PATCH')).toEqual([])
  })

  it('is written once in a second, if another replica always writes something else', async () => {
    put('mine', [webhook('a')])
    const clock = new ManualClock(1000)
    const contend = (failurePolicy: FailurePolicy) => put('mine', [webhook('a', { failurePolicy })])
    await start('Fail', clock)
    contend('Ignore')
    await eventually(() => expect(api.sent('PATCH')).toHaveLength(1))
    for (let i = 0; i < 5; i++) contend('Ignore')
    await eventually(() => expect(clock.sleeping).toContain(1000))
    await clock.advance(999)
    expect(api.sent('PATCH')).toHaveLength(1)
    await clock.advance(1)
    await eventually(() => expect(webhooks()).toEqual([webhook('a')]))
    expect(api.sent('PATCH')).toHaveLength(2)
  })

  it('is announced from the time at which each webhook has the authority', async () => {
    put('mine', [
      webhook('a', { clientConfig: { caBundle: base64('authority 1') } }),
      webhook('b', { clientConfig: { caBundle: base64('authority 0') } }),
    ])
    const clock = new ManualClock(1000)
    const registration = await start('Fail', clock)
    expect(registration.announcedForMs('authority 1')).toBeUndefined()
    registration.announce('authority 1')
    await eventually(() => expect(registration.announcedForMs('authority 1')).toBe(0))
    await clock.advance(500)
    clock.set(-3_600_000)
    expect(registration.announcedForMs('authority 1')).toBe(500)
    expect(registration.announcedForMs('authority 0')).toBeUndefined()
  })

  it('is written again if it changed before the write', async () => {
    put('mine', [webhook('a')])
    let changes = 0
    api.before = ({ method }) => {
      if (method === 'PATCH' && changes++ === 0) put('mine', [webhook('b')])
    }
    const registration = await start()
    registration.announce('authority 1')
    await eventually(() =>
      expect(webhooks()).toEqual([
        webhook('b', {
          clientConfig: { service: { name: 'akri' }, caBundle: base64('authority 1') },
        }),
      ]),
    )
    expect(warnings).toContain('registration changed before the write')
  })

  it('that was created again is written after a pause: it may be of another release', async () => {
    put('mine', [webhook('a')])
    const clock = new ManualClock(1000)
    await start('Ignore', clock)
    const ignoring = [webhook('a', { failurePolicy: 'Ignore' })]
    await eventually(() => expect(webhooks()).toEqual(ignoring))
    api.remove(`${REGISTRATIONS}/mine`)
    put('mine', [webhook('a')])
    await eventually(() => expect(clock.sleeping).toContain(5000))
    await clock.advance(4999)
    expect(webhooks()).toEqual([webhook('a')])
    await clock.advance(1)
    await eventually(() => expect(webhooks()).toEqual(ignoring))
  })

  it('that is missing is logged, and written when it comes', async () => {
    const registration = await start()
    registration.announce('authority 1')
    await eventually(() => expect(warnings).toContain('ValidatingWebhookConfiguration not found'))
    put('mine', [webhook('a')])
    await eventually(() => expect(JSON.stringify(webhooks())).toContain(base64('authority 1')))
  })
})
