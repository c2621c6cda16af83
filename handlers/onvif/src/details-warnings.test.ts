import { describe, expect, it } from 'vitest'
import { onvifDetails } from './details.js'
import { detailsWarnings, limitedTimeoutSeconds } from './details-warnings.js'

const FILTERS = ['ipAddresses', 'macAddresses', 'scopes', 'uuids'] as const

describe('a warning about details', () => {
  it.each([
    [-1, 1],
    [0, 1],
    [0.2, 1],
    [61, 60],
    [86_400, 60],
  ])('says that discoveryTimeoutSeconds %d is limited to %d', (seconds, limit) => {
    const details = onvifDetails.parse({ discoveryTimeoutSeconds: seconds })
    expect(limitedTimeoutSeconds(details)).toBe(limit)
    expect(detailsWarnings(details)).toEqual([
      { path: 'discoveryTimeoutSeconds', message: `${seconds} is limited to ${limit}` },
    ])
  })

  it.each([
    ['ipAddresses', ['10.0.0.1', 'fd00::1', 'camera.example'], ['fd00::1', 'camera.example']],
    ['macAddresses', ['02-00-00-00-ab-cd', 'eth0', '02:00:00'], ['eth0', '020000']],
    ['scopes', ['onvif://x/y', 'onvif://x/a b', ''], ['onvif://x/a b', '']],
    ['uuids', ['urn:uuid:a', 'a b', 'urn:uuid:'], ['a b', '']],
  ] as const)('names the items of %s that match nothing', (field, items, values) => {
    const warnings = detailsWarnings(onvifDetails.parse({ [field]: { items } }))
    expect(warnings.map(({ path }) => path)).toEqual([`${field}.items[1]`, `${field}.items[2]`])
    for (const [index, value] of values.entries()) {
      const message = warnings[index]?.message
      expect(message?.startsWith(`${JSON.stringify(value)} is not a`)).toBe(true)
      expect(message?.endsWith(': it matches nothing')).toBe(true)
    }
  })

  it('names ten items at most, and their first characters', () => {
    const items = Array(10_000).fill(`${'x'.repeat(5000)}\u202e`)
    const warnings = detailsWarnings(onvifDetails.parse({ macAddresses: { items } }))
    expect(warnings).toHaveLength(11)
    expect(warnings[10]).toEqual({
      path: 'macAddresses',
      message: '9990 more items match nothing',
    })
    for (const { message } of warnings) expect(message.length).toBeLessThan(200)
  })

  it.each(FILTERS)('says that Include without items matches nothing: %s', (field) => {
    expect(detailsWarnings(onvifDetails.parse({ [field]: { items: [] } }))).toMatchObject([
      { path: field, message: 'Include without items matches nothing' },
    ])
    const without = { items: [], action: 'Exclude' }
    expect(detailsWarnings(onvifDetails.parse({ [field]: without }))).toEqual([])
  })

  it.each([null, {}, { items: null }, { action: 'Exclude' }])(
    'is not given for a filter without a list of items, which is absent: %j',
    (nothing) => {
      const details = onvifDetails.parse(
        Object.fromEntries(FILTERS.map((filter) => [filter, nothing])),
      )
      expect(detailsWarnings(details)).toEqual([])
      for (const filter of FILTERS) expect(details[filter]).toBeUndefined()
    },
  )
})
