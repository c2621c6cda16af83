import { silentLogger, systemClock } from '@akrijs/sdk'
import { describe, expect, it } from 'vitest'
import { BUNDLED_TYPES } from '../../../api/src/generated/bundled-types.js'
import { Reviewer } from '../../../webhook/src/review/reviewer.js'
import { onvifDetails } from './details.js'
import handler from './index.js'

const reviewer = new Reviewer({
  types: () => BUNDLED_TYPES,
  handlers: new Map([[handler.name, handler]]),
  names: { problems: async () => [] },
  failurePolicy: 'Fail',
  clock: systemClock,
  log: silentLogger,
})

/** The verdict of the webhook on a Configuration with these details. */
const review = (details: object) =>
  reviewer.review({
    apiVersion: 'admission.k8s.io/v1',
    uid: '1',
    operation: 'CREATE',
    namespace: 'default',
    oldObject: undefined,
    object: {
      apiVersion: 'akri.sh/v0',
      kind: 'Configuration',
      metadata: { name: 'cameras' },
      spec: { discoveryHandler: { name: 'onvif', discoveryDetails: JSON.stringify(details) } },
    },
  })

const FILTERS = ['ipAddresses', 'macAddresses', 'scopes', 'uuids'] as const

const WRONG: [field: string, value: unknown, path?: string][] = [
  // An unknown field: the path is that of its owner, and the message names the field.
  ['ipAddress', { items: [] }],
  ...FILTERS.flatMap((filter): [string, unknown, string][] => [
    [filter, 'x', filter],
    [filter, { items: 'x' }, `${filter}.items`],
    [filter, { items: [1] }, `${filter}.items[0]`],
    [filter, { items: [], action: 'include' }, `${filter}.action`],
    [filter, { items: [], actions: 'Include' }, filter],
    [filter, { items: Array(10_001).fill('x') }, `${filter}.items`],
  ]),
  ...['1', null, true].map((value): [string, unknown] => ['discoveryTimeoutSeconds', value]),
  ...[59, 86_401, 60.5, '600'].map((value): [string, unknown] => ['refreshSeconds', value]),
  ['probeAddresses', ['camera.example'], 'probeAddresses[0]'],
  ['probeAddresses', ['10.0.0.0/24'], 'probeAddresses[0]'],
  ['probeAddresses', Array(257).fill('10.0.0.1')],
  ['interfaces', []],
  ['interfaces', Array(65).fill('eth0')],
  ['interfaces', ['a/b'], 'interfaces[0]'],
  ['interfaces', ['a b'], 'interfaces[0]'],
  ['interfaces', ['a-name-of-16-chr'], 'interfaces[0]'],
  ['allowedNetworks', ['10.0.0.0/33'], 'allowedNetworks[0]'],
  ['allowedNetworks', ['camera.example'], 'allowedNetworks[0]'],
  ['allowedNetworks', Array(257).fill('10.0.0.1')],
  ['certificates', 'none'],
  ['certificateAuthorities', 'mine'],
  ['mediaProfiles', 'true'],
  ['deviceId', 'serial'],
]

describe('W1 the details of the ONVIF handler', () => {
  it.each(WRONG.map(([field, value, path = field]) => ({ field, value, path })))(
    'are denied with the path of the field: $field: $value',
    async ({ field, value, path }) => {
      const verdict = await review({ [field]: value })
      const at = ['spec.discoveryHandler.discoveryDetails', path].filter((part) => part !== '')
      expect(verdict.outcome === 'denied' && verdict.problems).toMatchObject([
        { path: at.join('.') },
      ])
      expect(JSON.stringify(verdict)).toContain(field)
    },
  )

  it('are denied for each field', () => {
    const fields = new Set(WRONG.map(([field]) => field))
    expect(Object.keys(onvifDetails.shape).filter((field) => !fields.has(field))).toEqual([])
  })

  it.each([
    {},
    {
      ...Object.fromEntries(FILTERS.map((filter) => [filter, { items: ['x'] }])),
      discoveryTimeoutSeconds: 60,
      refreshSeconds: 86_400,
      probeAddresses: ['10.0.0.1', 'fd00::1', 'fe80::1%eth0'],
      interfaces: ['eth0', 'a-name-of-15-ch'],
      allowedNetworks: ['10.0.0.0/8', 'fd00::/8', '10.0.0.1'],
      certificates: 'verify',
      mediaProfiles: true,
      deviceId: 'uuid',
    },
    ...[null, {}, { items: null }, { items: null, action: null }].map((nothing) =>
      Object.fromEntries(FILTERS.map((filter) => [filter, nothing])),
    ),
    ...[0, -1, 1.5, 61, 86_400].map((discoveryTimeoutSeconds) => ({ discoveryTimeoutSeconds })),
    { discoveryTimeoutSeconds: 1, refreshSeconds: 60, scopes: { items: [], action: 'Exclude' } },
  ])('are allowed within the limits: %j', async (details) => {
    expect(await review(details)).toMatchObject({ outcome: 'allowed' })
  })
})
