import type { NodeName } from '@akrijs/kube/objects'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { instanceWith, NODE, servedWith } from '../testing/objects.js'
import { advertisedIds, chooseSlots, preferredIds } from './configuration-resource.js'
import type { InstanceSlots } from './resource.js'
import { instanceSlots } from './slot-book.js'

interface More {
  readonly healthy?: boolean
  readonly nodes?: readonly NodeName[]
  /** A claim of the slot 9, which the capacity does not have any more. */
  readonly beyond?: string
}

/** An Instance by the values of its `deviceUsage`, as a node offers it. */
function camera(
  digest: string,
  usages: readonly string[],
  { healthy = true, nodes = [NODE], beyond = '' }: More = {},
  node = NODE,
): InstanceSlots {
  const capacity = usages.length
  const served = servedWith({ healthy, capacity }, digest)
  const usage = Object.fromEntries(usages.map((value, index) => [`${served.name}-${index}`, value]))
  const instance = instanceWith({ ...usage, [`${served.name}-9`]: beyond }, { capacity, nodes })
  return instanceSlots(node, served, instance)
}

/** For each container the slots by id. */
const choose = (instances: readonly InstanceSlots[], ...requests: string[][]) =>
  chooseSlots(instances, requests).map((chosen) =>
    Object.fromEntries(chosen.map(({ id, slot }) => [id, slot.replace('cam-', '')])),
  )

const FREE = [camera('8120fe', ['', '']), camera('a19705', ['', ''])]
const USED = [camera('8120fe', ['', '']), camera('a19705', ['', 'C:3:node-a'])]
const TAKEN = [
  camera('8120fe', ['C:0:node-a', 'C:3:node-a']),
  camera('a19705', ['C:1:node-a', 'C:2:node-a']),
]
const UNEVEN = [
  camera('8120fe', ['node-b', '']),
  camera('a19705', ['', '']),
  camera('b00000', ['node-b', 'node-b']),
]
const AWAY = camera('8120fe', ['C:0:node-a', ''], { healthy: false })
const BEYOND = [camera('8120fe', [''], { beyond: 'C:0:node-a' }), camera('a19705', [''])]
const FULL = camera('8120fe', [''], { beyond: 'node-b' })

describe('the advertised ids of a Configuration', () => {
  it.each<[string, InstanceSlots[], expected: string[], lost?: string[]]>([
    ['R8 R26 are one for each device with a free slot, for any number of slots', FREE, ['0', '1']],
    ['R25 R27 are claimed ids, and the smallest unused numbers', USED, ['0', '1', '3']],
    ['R28 are the claimed ids if all slots are claimed', TAKEN, ['0', '1', '2', '3']],
    ['A20 R25 are claimed ids beyond a lowered capacity too', BEYOND, ['0', '1']],
    ['R7 A20 leave out free slots that wait for claims beyond a lowered capacity', [FULL], []],
    ['are unhealthy for an unhealthy device', [AWAY, FREE[1] ?? AWAY], ['0 unhealthy', '1']],
    [
      'are unhealthy for a lost device, and given to no other',
      FREE,
      ['0', '1 unhealthy', '2', '12 unhealthy', 'cam-7 unhealthy'],
      ['1', 'cam-7', '12'],
    ],
    ['are healthy if Allocate has given them to another device', USED, ['0', '1', '3'], ['3']],
  ])('%s', (_, instances, expected, lost) => {
    const advertised = advertisedIds(instances, lost)
    expect(advertised.map(({ id, healthy }) => `${id}${healthy ? '' : ' unhealthy'}`)).toEqual(
      expected,
    )
  })
})

describe('the chosen slots of a request', () => {
  it.each<[string, InstanceSlots[], string[][], Record<string, string>[] | RegExp]>([
    ['R10 R32 of different devices', FREE, [['0', '1']], [{ 0: '8120fe-0', 1: 'a19705-0' }]],
    ['R33 R35 the claimed slot of an id', USED, [['0', '3']], [{ 0: '8120fe-0', 3: 'a19705-1' }]],
    [
      'R29 R30 R31 R37 for each container separately, beside a claimed id',
      USED,
      [['0', '1'], ['3']],
      [{ 0: '8120fe-0', 1: 'a19705-0' }, { 3: 'a19705-1' }],
    ],
    [
      'R34 of the device with the most free slots',
      UNEVEN,
      [['0'], ['1'], ['2']],
      [{ 0: 'a19705-0' }, { 1: '8120fe-1' }, { 2: 'a19705-1' }],
    ],
    [
      'the same for an id of two containers',
      FREE,
      [['0'], ['0']],
      [{ 0: '8120fe-0' }, { 0: '8120fe-0' }],
    ],
    ['R7 A20 the claimed slot beyond the capacity', BEYOND, [['0']], [{ 0: '8120fe-9' }]],
    ['R11 R36 none of a device twice', USED, [['0', '1', '3']], /^3 different .* 2 are available$/],
    ['R28 none of two slots of a device', TAKEN, [['0', '3']], /ids 0 and 3 both .* cam-8120fe, /],
    ['none of an unhealthy device', [AWAY], [['0']], /cam-8120fe is not available now/],
    ['R7 A20 none that waits for a claim', [FULL], [['0']], /^1 different devices are requested/],
    ['A17 none for a repeated id', FREE, [['0', '0']], /not all different/],
    ...['', '-1', '00', '1e3', 'cam-8120fe-0', '9'.repeat(400)].map(
      (odd): [string, InstanceSlots[], string[][], RegExp] => [
        `A17 A22 none for the id ${JSON.stringify(odd.slice(0, 20))}`,
        FREE,
        [[odd]],
        /is not an id of this/,
      ],
    ),
  ])('are %s', (_, instances, requests, expected) => {
    if (expected instanceof RegExp) expect(() => choose(instances, ...requests)).toThrow(expected)
    else expect(choose(instances, ...requests)).toEqual(expected)
  })
})

const usage = fc.oneof(
  { weight: 4, arbitrary: fc.constant('') },
  { weight: 1, arbitrary: fc.constantFrom('node-a', 'node-b', 'C:x') },
  {
    weight: 3,
    arbitrary: fc
      .tuple(fc.nat({ max: 6 }), fc.constantFrom('node-a', 'node-b'))
      .map(([id, node]) => `C:${id}:${node}`),
  },
)
const health = fc.constantFrom(true, true, true, false)
/** Instances as they can be: one id of a node stands for one slot. */
const instances = fc
  .array(fc.tuple(fc.array(usage, { minLength: 1, maxLength: 4 }), usage, health), { maxLength: 5 })
  .map((all) => {
    const seen = new Set<string>()
    const once = (each: string) => {
      if (!each.startsWith('C:')) return each
      if (seen.has(each)) return ''
      seen.add(each)
      return each
    }
    return all.map(([usages, beyond, healthy], at) =>
      camera(`00000${at}`, usages.map(once), { healthy, beyond: once(beyond) }),
    )
  })
const someIds = fc.uniqueArray(fc.nat({ max: 8 }).map(String), { maxLength: 9 })

function isPossible(all: readonly InstanceSlots[], ids: readonly string[]): boolean {
  try {
    return chooseSlots(all, [ids]).length === 1
  } catch {
    return false
  }
}
/** The ids that this node has claimed, and whether their slots are within the capacity. */
const heldIds = (all: readonly InstanceSlots[]) =>
  new Map(
    all.flatMap(({ byId, slots }) =>
      Array.from(byId, ([id, slot]) => [id, slots.has(slot)] as const),
    ),
  )

describe('for any slots', () => {
  it('R13 R34 each healthy id can be allocated, and new ids of all devices with a slot', () => {
    fc.assert(
      fc.property(instances, fc.nat({ max: 5 }), (all, size) => {
        const healthy = advertisedIds(all).filter((each) => each.healthy)
        const available = healthy.map(({ id }) => id)
        expect(new Set(available).size).toBe(available.length)
        for (const id of available) expect(isPossible(all, [id])).toBe(true)
        const held = heldIds(all)
        const fresh = ['20', '21', '22', '23', '24'].filter((id) => !held.has(id)).slice(0, size)
        const withFree = all.filter(({ free }) => free.length > 0).length
        expect(isPossible(all, fresh)).toBe(size <= withFree)
      }),
    )
  })

  it('A16 R33 ids are preferred that are possible together, claims of no container first', () => {
    const size = fc.nat({ max: 9 })
    fc.assert(
      fc.property(instances, someIds, someIds, size, (all, available, mustInclude, most) => {
        const one = [...mustInclude]
        const held = heldIds(all)
        const left = available.filter((id) => !mustInclude.includes(id)).sort()
        // Not those beyond the capacity, which end.
        const claimed = left.filter((id) => held.get(id) === true)
        for (const id of [...claimed, ...left.filter((each) => !held.has(each))])
          if (one.length < most && isPossible(all, [...one, id])) one.push(id)
        expect(preferredIds(all, { available, mustInclude, size: most })).toEqual(one)
      }),
    )
  })
})

describe('the ids of a Configuration beside the existing system', () => {
  const beside = (instances: readonly InstanceSlots[]) =>
    advertisedIds(instances, [], 'cam-').map(({ id }) => id)
  const OLD = [camera('8120fe', ['C:0:node-a', ''])]

  it('R26 have its form, and stand in the order of their numbers', () => {
    expect(beside(FREE)).toEqual(['cam-0', 'cam-1'])
    const claimed = ['C:cam-10:node-a', 'C:cam-2:node-a', 'C:cam-0:node-a', '']
    expect(beside([camera('8120fe', claimed)])).toEqual(['cam-0', 'cam-1', 'cam-2', 'cam-10'])
    const request = { available: ['cam-10', 'cam-2', 'cam-1'], mustInclude: [], size: 2 }
    expect(preferredIds(FREE, request, 'cam-')).toEqual(['cam-1', 'cam-2'])
  })

  it('keep the form in which a container got them, and have no other for new claims', () => {
    expect(beside(OLD)).toEqual(['cam-0', '0'])
    expect(chooseSlots(OLD, [['0']], 'cam-')).toMatchObject([[{ slot: 'cam-8120fe-0' }]])
    expect(chooseSlots(FREE, [['cam-7']], 'cam-')).toMatchObject([[{ slot: 'cam-8120fe-0' }]])
    for (const id of ['0', 'cam-', 'cam-01', 'cam-x', 'cam-1234567890', 'cam-0-0', 'dam-0'])
      expect(() => chooseSlots(FREE, [[id]], 'cam-')).toThrow(`["${id}"] is not an id of this`)
  })
})
