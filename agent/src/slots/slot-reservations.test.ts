import type { Instance } from '@akrijs/api'
import { type NodeName, objectKey } from '@akrijs/kube/objects'
import { ManualClock } from '@akrijs/runtime/testing'
import { describe, expect, it } from 'vitest'
import { instanceWith } from '../testing/objects.js'
import { SlotReservations } from './slot-reservations.js'

const HERE = 'node-a' as NodeName
const THERE = 'node-b' as NodeName
const key = objectKey('default', 'cam-8120fe')

function sharedInstance(
  deviceUsage: Record<string, string>,
  { nodes = [HERE, THERE], capacity = 2, uid = 'u1' } = {},
): Instance {
  return instanceWith(deviceUsage, { nodes, capacity }, { uid })
}

function start(reservationMs = 15_000) {
  const clock = new ManualClock()
  const expired: string[] = []
  const reservations = new SlotReservations({
    node: HERE,
    clock,
    reservationMs,
    onExpired: (which) => expired.push(which),
  })
  /** The usage after a change of the Instance. */
  const after = (instance: Instance) => {
    reservations.instanceChanged(key, instance)
    return reservations.usage(key, instance)
  }
  return { clock, expired, reservations, after }
}

describe('a slot that another node frees', () => {
  it.each([THERE, `C:0:${THERE}`])(
    'R77 is reserved for that node for a while, and free then, if the claim was %s',
    async (held) => {
      const { clock, expired, reservations, after } = start()
      expect(
        after(sharedInstance({ 'cam-8120fe-0': held, 'cam-8120fe-1': '' }))['cam-8120fe-0'],
      ).toBe(held)
      const free = sharedInstance({ 'cam-8120fe-0': '', 'cam-8120fe-1': '' })
      expect(after(free)).toEqual({ 'cam-8120fe-0': held, 'cam-8120fe-1': '' })
      await clock.advance(14_999)
      expect(reservations.usage(key, free)['cam-8120fe-0']).toBe(held)
      expect(expired).toEqual([])
      await clock.advance(1)
      expect(reservations.usage(key, free)['cam-8120fe-0']).toBe('')
      expect(expired).toEqual([key])
    },
  )

  it('is free at once if this node frees it', () => {
    const { after } = start()
    after(sharedInstance({ 'cam-8120fe-0': HERE, 'cam-8120fe-1': `C:0:${HERE}` }))
    expect(after(sharedInstance({ 'cam-8120fe-0': '', 'cam-8120fe-1': '' }))).toEqual({
      'cam-8120fe-0': '',
      'cam-8120fe-1': '',
    })
  })

  it('R84 can be claimed meanwhile, and is reserved again after that claim', async () => {
    const { clock, expired, reservations, after } = start()
    const [held, free] = [
      sharedInstance({ 'cam-8120fe-0': THERE }),
      sharedInstance({ 'cam-8120fe-0': '' }),
    ]
    after(held)
    after(free)
    await clock.advance(10_000)
    expect(after(sharedInstance({ 'cam-8120fe-0': `C:7:${THERE}` }))['cam-8120fe-0']).toBe(
      `C:7:${THERE}`,
    )
    after(free)
    await clock.advance(14_999)
    expect(reservations.usage(key, free)['cam-8120fe-0']).toBe(`C:7:${THERE}`)
    expect(expired).toEqual([])
    await clock.advance(1)
    expect(reservations.usage(key, free)['cam-8120fe-0']).toBe('')
  })

  it('is free if the node leaves the Instance after that', () => {
    const { reservations, after } = start()
    after(sharedInstance({ 'cam-8120fe-0': HERE, 'cam-8120fe-1': THERE }))
    const free = { 'cam-8120fe-0': '', 'cam-8120fe-1': '' }
    expect(after(sharedInstance(free))['cam-8120fe-1']).toBe(THERE)
    expect(reservations.usage(key, sharedInstance(free, { nodes: [HERE] }))).toEqual(free)
  })

  it('R84 by leaving the Instance is reserved until the node is back with its claims', async () => {
    const { clock, reservations, after } = start()
    const held = { 'cam-8120fe-0': HERE, 'cam-8120fe-1': THERE }
    after(sharedInstance(held))
    const left = sharedInstance({ ...held, 'cam-8120fe-1': '' }, { nodes: [HERE] })
    expect(after(left)).toEqual(held)
    const back = sharedInstance({ ...held, 'cam-8120fe-1': '' })
    expect(after(back)).toEqual(back.spec.deviceUsage)
    await clock.advance(15_000)
    expect(reservations.usage(key, left)).toEqual(left.spec.deviceUsage)
  })

  it('R84 by leaving is also reserved in the next Instance of the device', async () => {
    const { clock, reservations, after } = start()
    after(sharedInstance({ 'cam-8120fe-0': HERE, 'cam-8120fe-1': THERE }))
    after(sharedInstance({ 'cam-8120fe-0': HERE, 'cam-8120fe-1': '' }, { nodes: [HERE] }))
    // All nodes lost the device.
    reservations.instanceChanged(key, undefined)
    await clock.advance(14_000)
    const free = { 'cam-8120fe-0': '', 'cam-8120fe-1': '' }
    const made = sharedInstance(free, { nodes: [HERE], uid: 'u2' })
    expect(after(made)).toEqual({ ...free, 'cam-8120fe-1': THERE })
    await clock.advance(14_999)
    expect(reservations.usage(key, made)['cam-8120fe-1']).toBe(THERE)
    await clock.advance(1)
    expect(reservations.usage(key, made)).toEqual(free)
  })

  it('R79 is not reserved if the slot is beyond the capacity', () => {
    const { after } = start()
    after(sharedInstance({ 'cam-8120fe-0': HERE, 'cam-8120fe-1': THERE }, { capacity: 1 }))
    expect(after(sharedInstance({ 'cam-8120fe-0': HERE }, { capacity: 1 }))).toEqual({
      'cam-8120fe-0': HERE,
    })
  })

  it('is free at once if reservations are switched off', () => {
    const { after } = start(0)
    after(sharedInstance({ 'cam-8120fe-0': THERE }))
    expect(after(sharedInstance({ 'cam-8120fe-0': '' }))).toEqual({ 'cam-8120fe-0': '' })
  })

  it.each([true, false])(
    'R84 is reserved in a recreated Instance until the node joins (deletion seen: %s)',
    async (seen) => {
      const { clock, reservations, after } = start()
      after(sharedInstance({ 'cam-8120fe-0': THERE, 'cam-8120fe-1': HERE }))
      if (seen) reservations.instanceChanged(key, undefined)
      const free = { 'cam-8120fe-0': '', 'cam-8120fe-1': '' }
      const made = sharedInstance(free, { nodes: [HERE], uid: 'u2' })
      expect(after(made)).toEqual({ ...free, 'cam-8120fe-0': THERE })
      const joined = sharedInstance(free, { uid: 'u2' })
      expect(after(joined)).toEqual(free)
      expect(reservations.usage(key, made)['cam-8120fe-0']).toBe(THERE)
      // The node may not join in time.
      await clock.advance(15_000)
      expect(reservations.usage(key, made)).toEqual(free)
    },
  )

  it('R84 is free in an Instance that its last node has recreated without the claim', () => {
    const { after } = start()
    after(sharedInstance({ 'cam-8120fe-0': THERE }))
    expect(after(sharedInstance({ 'cam-8120fe-0': '' }, { uid: 'u2' }))).toEqual({
      'cam-8120fe-0': '',
    })
  })

  it('waits with one timer for all slots, each for its time', async () => {
    const { clock, expired, reservations, after } = start()
    const slots = Array.from({ length: 100 }, (_, index) => `cam-8120fe-${index}`)
    const instance = (from: number) =>
      sharedInstance(
        Object.fromEntries(slots.map((slot, index) => [slot, index < from ? '' : THERE])),
        { capacity: 100 },
      )
    after(instance(0))
    after(instance(50))
    await clock.advance(5000)
    after(instance(100))
    expect(clock.sleeping).toEqual([10_000])
    await clock.advance(10_000)
    expect(expired).toHaveLength(50)
    expect(clock.sleeping).toEqual([5000])
    const heldSlots = Object.values(reservations.usage(key, instance(100))).filter(Boolean)
    expect(heldSlots).toHaveLength(50)
    await clock.advance(5000)
    expect(expired).toHaveLength(100)
    expect(clock.sleeping).toEqual([])
  })

  it('does not expire after the close', async () => {
    const { clock, expired, reservations, after } = start()
    after(sharedInstance({ 'cam-8120fe-0': THERE }))
    after(sharedInstance({ 'cam-8120fe-0': '' }))
    reservations.close()
    expect(clock.sleeping).toEqual([])
    await clock.advance(20_000)
    expect(expired).toEqual([])
  })
})
