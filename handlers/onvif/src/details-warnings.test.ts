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
      {
        field: 'discoveryTimeoutSeconds',
        problem: `limited to ${limit}`,
        values: [seconds],
      },
    ])
  })

  it.each([
    ['ipAddresses', ['10.0.0.1', 'fd00::1', 'camera.example'], ['fd00::1', 'camera.example']],
    ['macAddresses', ['02-00-00-00-ab-cd', 'eth0', '02:00:00'], ['eth0', '020000']],
    ['scopes', ['onvif://x/y', 'onvif://x/a b', ''], ['onvif://x/a b', '']],
    ['uuids', ['urn:uuid:a', 'a b', 'urn:uuid:'], ['a b', '']],
  ] as const)('names the items of %s that match nothing', (field, items, values) => {
    const [warning, ...others] = detailsWarnings(onvifDetails.parse({ [field]: { items } }))
    expect(others).toEqual([])
    expect(warning).toMatchObject({ field, values })
    expect(warning?.problem).toContain(`2 of 3 items match nothing`)
  })

  it('names ten items at most', () => {
    const items = Array(10_000).fill('x')
    const [warning] = detailsWarnings(onvifDetails.parse({ macAddresses: { items } }))
    expect(warning?.values).toHaveLength(10)
  })

  it.each(FILTERS)('says that Include without items matches nothing: %s', (field) => {
    expect(detailsWarnings(onvifDetails.parse({ [field]: { items: [] } }))).toMatchObject([
      { field },
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
