import { describe, expect, it } from 'vitest'
import { leaseStep, parseLease } from './lease.js'

const lease = (holderIdentity: string, renewTime = 't1') =>
  parseLease({
    metadata: { resourceVersion: '1' },
    spec: { holderIdentity, leaseDurationSeconds: 15, renewTime },
  })

describe('the next step of a candidate', () => {
  it('is a write if the Lease is absent, free or its own', () => {
    for (const found of [undefined, lease(''), lease('a')])
      expect(leaseStep(found, 'a', undefined, 0)).toEqual({ do: 'write' })
  })

  it('is to wait while another candidate renews, and to write after the duration', () => {
    const first = leaseStep(lease('b'), 'a', undefined, 1000)
    expect(first).toMatchObject({ do: 'wait', seen: { seenAt: 1000 } })
    const seen = first.do === 'wait' ? first.seen : expect.fail()
    expect(leaseStep(lease('b'), 'a', seen, 15_999)).toEqual(first)
    expect(leaseStep(lease('b'), 'a', seen, 16_000)).toEqual({ do: 'write' })
    expect(leaseStep(lease('b', 't2'), 'a', seen, 16_000)).toMatchObject({
      do: 'wait',
      seen: { seenAt: 16_000 },
    })
  })
})
