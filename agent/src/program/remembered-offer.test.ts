import type { ObjectKey } from '@akrijs/kube/objects'
import { ManualClock } from '@akrijs/runtime/testing'
import { beforeEach, describe, expect, it } from 'vitest'
import { RememberedOffer } from './remembered-offer.js'

const [a, b, other] = ['default/a', 'default/b', 'default/other'] as ObjectKey[] as [
  ObjectKey,
  ObjectKey,
  ObjectKey,
]

let clock: ManualClock
let stop: AbortController

beforeEach(() => {
  clock = new ManualClock()
  stop = new AbortController()
})

function offer(...of: ObjectKey[]): {
  readonly offer: RememberedOffer
  isMade(): Promise<boolean>
} {
  const remembered = new RememberedOffer({ of, clock, signal: stop.signal })
  let made = false
  void remembered.made.then(() => {
    made = true
  })
  return {
    offer: remembered,
    async isMade() {
      await new Promise((resolve) => setImmediate(resolve))
      return made
    },
  }
}

describe('the offer of the devices in the checkpoint', () => {
  it('R104 is made after all its Configurations were tried, in any order', async () => {
    const { offer: remembered, isMade } = offer(a, b)
    remembered.tried(b)
    remembered.tried(other)
    remembered.tried(b)
    expect(await isMade()).toBe(false)
    remembered.tried(a)
    expect(await isMade()).toBe(true)
  })

  it('is made at once without devices in the checkpoint', async () => {
    expect(await offer().isMade()).toBe(true)
  })

  it('is awaited for a second at most, and not after the end of the agent', async () => {
    const { isMade } = offer(a)
    await clock.advance(999)
    expect(await isMade()).toBe(false)
    await clock.advance(1)
    expect(await isMade()).toBe(true)
    const { isMade: isOver } = offer(a)
    stop.abort()
    expect(await isOver()).toBe(true)
  })
})
