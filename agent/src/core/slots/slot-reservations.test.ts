import type { Instance } from '@akrijs/api'
import { type NodeName, objectKey } from '@akrijs/kube/objects'
import { ManualClock } from '@akrijs/runtime/testing'
import { describe, expect, it } from 'vitest'
import { instanceWith } from '../../testing/objects.js'
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

function start(leftForMs = 15_000) {
  const clock = new ManualClock()
  const over: string[] = []
  const handover = new SlotReservations({
    node: HERE,
    clock,
    reservationMs: leftForMs,
    onExpired: (which) => over.push(which),
  })
  /** What this node goes by after a change. */
  const after = (instance: Instance) => {
    handover.instanceChanged(key, instance)
    return handover.usage(key, instance)
  }
  return { clock, over, handover, after }
}

describe('a slot that a node frees', () => {
  it.each([THERE, `C:0:${THERE}`])(
    'R77 is left to that node for a while, and anybody’s then, where it was held as %s',
    async (held) => {
      const { clock, over, handover, after } = start()
      expect(
        after(sharedInstance({ 'cam-8120fe-0': held, 'cam-8120fe-1': '' }))['cam-8120fe-0'],
      ).toBe(held)
      const free = sharedInstance({ 'cam-8120fe-0': '', 'cam-8120fe-1': '' })
      expect(after(free)).toEqual({ 'cam-8120fe-0': held, 'cam-8120fe-1': '' })
      await clock.advance(14_999)
      expect(handover.usage(key, free)['cam-8120fe-0']).toBe(held)
      expect(over).toEqual([])
      await clock.advance(1)
      expect(handover.usage(key, free)['cam-8120fe-0']).toBe('')
      expect(over).toEqual([key])
    },
  )

  it('is there at once for the node that frees it', () => {
    const { after } = start()
    after(sharedInstance({ 'cam-8120fe-0': HERE, 'cam-8120fe-1': `C:0:${HERE}` }))
    expect(after(sharedInstance({ 'cam-8120fe-0': '', 'cam-8120fe-1': '' }))).toEqual({
      'cam-8120fe-0': '',
      'cam-8120fe-1': '',
    })
  })

  it('R84 belongs to who takes it meanwhile, and begins anew when that one frees it', async () => {
    const { clock, over, handover, after } = start()
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
    expect(handover.usage(key, free)['cam-8120fe-0']).toBe(`C:7:${THERE}`)
    expect(over).toEqual([])
    await clock.advance(1)
    expect(handover.usage(key, free)['cam-8120fe-0']).toBe('')
  })

  it('is not left to a node that does not see the device any more', () => {
    const { handover, after } = start()
    after(sharedInstance({ 'cam-8120fe-0': THERE, 'cam-8120fe-1': THERE }))
    const usage = { 'cam-8120fe-0': '', 'cam-8120fe-1': THERE }
    expect(after(sharedInstance(usage, { nodes: [HERE] }))).toEqual(usage)
    // Nor to one that leaves later.
    after(sharedInstance({ 'cam-8120fe-0': '', 'cam-8120fe-1': THERE }))
    const free = { 'cam-8120fe-0': '', 'cam-8120fe-1': '' }
    expect(after(sharedInstance(free))['cam-8120fe-1']).toBe(THERE)
    expect(handover.usage(key, sharedInstance(free, { nodes: [HERE] }))).toEqual(free)
  })

  it('R79 is one of the capacity: what was held beyond it is nobody’s', () => {
    const { after } = start()
    after(sharedInstance({ 'cam-8120fe-0': HERE, 'cam-8120fe-1': THERE }, { capacity: 1 }))
    expect(after(sharedInstance({ 'cam-8120fe-0': HERE }, { capacity: 1 }))).toEqual({
      'cam-8120fe-0': HERE,
    })
  })

  it('is nobody’s where none is to be left', () => {
    const { after } = start(0)
    after(sharedInstance({ 'cam-8120fe-0': THERE }))
    expect(after(sharedInstance({ 'cam-8120fe-0': '' }))).toEqual({ 'cam-8120fe-0': '' })
  })

  it.each([true, false])(
    'R84 is left to it in an Instance made anew too, until it joins with what it has (seen to go: %s)',
    async (seen) => {
      const { clock, handover, after } = start()
      after(sharedInstance({ 'cam-8120fe-0': THERE, 'cam-8120fe-1': HERE }))
      if (seen) handover.instanceChanged(key, undefined)
      const free = { 'cam-8120fe-0': '', 'cam-8120fe-1': '' }
      const made = sharedInstance(free, { nodes: [HERE], uid: 'u2' })
      expect(after(made)).toEqual({ ...free, 'cam-8120fe-0': THERE })
      const joined = sharedInstance(free, { uid: 'u2' })
      expect(after(joined)).toEqual(free)
      expect(handover.usage(key, made)['cam-8120fe-0']).toBe(THERE)
      // It may be away for longer.
      await clock.advance(15_000)
      expect(handover.usage(key, made)).toEqual(free)
    },
  )

  it('leaves nothing to wait for once it is closed', async () => {
    const { clock, over, handover, after } = start()
    after(sharedInstance({ 'cam-8120fe-0': THERE }))
    after(sharedInstance({ 'cam-8120fe-0': '' }))
    handover.close()
    expect(clock.sleeping).toEqual([])
    await clock.advance(20_000)
    expect(over).toEqual([])
  })
})
