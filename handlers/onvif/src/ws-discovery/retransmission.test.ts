import { describe, expect, it } from 'vitest'
import { MULTICAST, retransmissions, UNICAST } from './retransmission.js'

describe('retransmission', () => {
  it.each([
    ['a multicast message with the shortest delays', MULTICAST, 0, [50, 100, 200, 400]],
    ['a multicast message with the longest delays', MULTICAST, 1, [250, 500, 500, 500]],
    ['a unicast message', UNICAST, 0.5, [150, 300]],
  ])('waits as SOAP-over-UDP has it for %s', (_what, parameters, random, waits) => {
    expect([...retransmissions(parameters, () => random)]).toEqual(waits)
  })
})
