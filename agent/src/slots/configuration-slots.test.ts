import { type ConfigurationName, parseSlotUsage, type SlotName } from '@akrijs/api'
import type { NodeName } from '@akrijs/kube/objects'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { servedWith } from '../testing/objects.js'
import { advertisedIds, chooseSlots, preferredIds } from './configuration-slots.js'
import { type InstanceSlots, offeredBy } from './instance-slots.js'
import { preferredSlots } from './offer.js'
import { virtualIds } from './virtual-ids.js'

const NODE = 'node-a' as NodeName

type More = Partial<Pick<InstanceSlots, 'nodes' | 'beyond'>> & { readonly healthy?: boolean }

/** An Instance by the values of its `deviceUsage`, as a node offers it. */
function camera(
  digest: string,
  usages: readonly string[],
  { healthy = true, ...more }: More = {},
  node = NODE,
): InstanceSlots {
  const served = servedWith({ healthy }, digest)
  const slots = new Map(
    usages.map((usage, index) => [`${served.name}-${index}` as SlotName, parseSlotUsage(usage)]),
  )
  const known = { served, state: 'there', nodes: [NODE], slots, beyond: new Map() } as const
  return offeredBy(node, { ...known, ...more })
}

/** A claim of a slot that the capacity does not have any more. */
const heldBeyond = (usage: string) => new Map([['cam-8120fe-9' as SlotName, parseSlotUsage(usage)]])

const ids = (instances: readonly InstanceSlots[]) => advertisedIds(instances).map(({ id }) => id)
/** For each container the slots by id; the reason where it is refused. */
function choose(instances: readonly InstanceSlots[], ...requests: string[][]) {
  const choice = chooseSlots(instances, requests)
  return choice.ok
    ? choice.containers.map((chosen) =>
        Object.fromEntries(chosen.map(({ id, slot }) => [id, slot])),
      )
    : choice.reason
}

/** The ids of containers whose devices are gone. */
const gone = (...ids: readonly string[]) => new Map(ids.map((id) => [id, false]))

const FREE = [camera('8120fe', ['', '']), camera('a19705', ['', ''])]
const ONE_CLAIMED = [camera('8120fe', ['', '']), camera('a19705', ['', 'C:4:node-a'])]

describe('the advertised ids of a Configuration', () => {
  it('R8 R26 include an id for each device with a free slot, for any number of slots', () => {
    expect(ids(FREE)).toEqual(['0', '1'])
    expect(ids([camera('8120fe', ['', '']), camera('a19705', ['node-b', 'node-a'])])).toEqual(['0'])
    expect(ids([])).toEqual([])
  })

  it('R25 R27 include claimed ids; the other ids are the smallest unused numbers', () => {
    expect(ids(ONE_CLAIMED)).toEqual(['0', '1', '4'])
    expect(
      ids([camera('8120fe', ['C:0:node-a', '']), camera('a19705', ['C:2:node-a', ''])]),
    ).toEqual(['0', '1', '2', '3'])
  })

  it('R28 are the claimed ids if all slots are claimed', () => {
    const taken = [
      camera('8120fe', ['C:0:node-a', 'C:3:node-a']),
      camera('a19705', ['C:1:node-a', 'C:2:node-a']),
    ]
    expect(advertisedIds(taken)).toEqual(['0', '1', '2', '3'].map((id) => ({ id, healthy: true })))
  })

  it('R29 R30 become fewer with released slots, and stand for different devices', () => {
    const reconciled = [camera('8120fe', ['', '']), camera('a19705', ['C:3:node-a', ''])]
    expect(ids(reconciled)).toEqual(['0', '1', '3'])
    expect(choose(reconciled, ['0', '1'])).toEqual([{ '0': 'cam-8120fe-0', '1': 'cam-a19705-1' }])
  })

  it('do not include ids that another node has claimed', () => {
    expect(ids([camera('8120fe', ['C:7:node-b', ''])])).toEqual(['0'])
    expect(ids([camera('8120fe', ['C:7:node-b'])])).toEqual([])
  })

  it('keep the form of another system', () => {
    const old = [camera('8120fe', ['C:cam-0:node-a', ''])]
    expect(ids(old)).toEqual(['0', 'cam-0'])
    expect(choose(old, ['cam-0'])).toEqual([{ 'cam-0': 'cam-8120fe-0' }])
  })

  it('are unhealthy for an unhealthy device, which gets no further id', () => {
    const lost = [camera('8120fe', ['C:0:node-a', ''], { healthy: false }), camera('a19705', [''])]
    expect(advertisedIds(lost)).toEqual([
      { id: '0', healthy: false },
      { id: '1', healthy: true },
    ])
    expect(choose(lost, ['0'])).toMatch(/is not available now/)
  })

  it('include the ids of lost devices as unhealthy, and give these ids to no other device', () => {
    expect(advertisedIds(FREE, gone('1', 'cam-7', '12'))).toEqual([
      { id: '0', healthy: true },
      { id: '1', healthy: false },
      { id: '2', healthy: true },
      { id: '12', healthy: false },
      { id: 'cam-7', healthy: false },
    ])
    expect(advertisedIds([], gone('0'))).toEqual([{ id: '0', healthy: false }])
    // Allocate has given the id to another device meanwhile.
    expect(advertisedIds(ONE_CLAIMED, gone('4'))).toContainEqual({ id: '4', healthy: true })
  })

  it('are healthy for containers whose device is there while the Instance is not', () => {
    const awaited = new Map([['0', true]])
    const away = camera('8120fe', ['C:0:node-a', ''], { healthy: false })
    for (const list of [[camera('a19705', [''])], [away, camera('a19705', [''])]])
      expect(advertisedIds(list, awaited)).toEqual([
        { id: '0', healthy: true },
        { id: '1', healthy: true },
      ])
  })

  it('R7 A20 include no id for free slots that wait for claims beyond a lowered capacity', () => {
    expect(ids([camera('8120fe', [''], { beyond: heldBeyond('node-b') })])).toEqual([])
    expect(choose([camera('8120fe', [''], { beyond: heldBeyond('node-b') })], ['0'])).toMatch(
      /1 different devices are requested/,
    )
  })
})

describe('the ids of a Configuration whose claims are beyond a lowered capacity', () => {
  const both = [
    camera('8120fe', [''], { beyond: heldBeyond('C:0:node-a') }),
    camera('a19705', ['']),
  ]

  it('A20 R25 are advertised until their Pods end, beside an id for each free device', () => {
    expect(ids(both)).toEqual(['0', '1'])
    expect(choose(both, ['1'])).toEqual([{ 1: 'cam-a19705-0' }])
  })

  it('R7 A20 stand for the same slots, and other ids are preferred', () => {
    expect(choose(both, ['0'])).toEqual([{ 0: 'cam-8120fe-9' }])
    const request = { available: ['0', '1'], mustInclude: [], size: 1 }
    expect(preferredIds(both, request)).toEqual(['1'])
  })
})

describe('the chosen slots of a request', () => {
  it('R33 R35 are the claimed slot of an id, or a slot of the freest device', () => {
    const used = [camera('8120fe', ['', '']), camera('a19705', ['', 'C:3:node-a'])]
    expect(choose(used, ['0', '3'])).toEqual([{ '0': 'cam-8120fe-0', '3': 'cam-a19705-1' }])
  })

  it('R11 R28 R36 are refused if two slots of a container would belong to the same device', () => {
    const used = [camera('8120fe', ['', '']), camera('a19705', ['', 'C:3:node-a'])]
    expect(choose(used, ['0', '1', '3'])).toBe(
      '3 different devices are requested, and 2 are available',
    )
    const taken = [camera('8120fe', ['C:0:node-a', 'C:3:node-a'])]
    expect(choose(taken, ['0', '3'])).toMatch(/ids 0 and 3 both stand for Instance cam-8120fe/)
  })

  it('R31 R37 are chosen for each container separately', () => {
    const used = [camera('8120fe', ['', '']), camera('a19705', ['', 'C:3:node-a'])]
    expect(choose(used, ['0', '1'], ['3'])).toEqual([
      { '0': 'cam-8120fe-0', '1': 'cam-a19705-0' },
      { '3': 'cam-a19705-1' },
    ])
  })

  it('R34 belong to the device with the most free slots', () => {
    const uneven = [
      camera('8120fe', ['node-b', '']),
      camera('a19705', ['', '']),
      camera('b00000', ['node-b', 'node-b']),
    ]
    expect(choose(uneven, ['0'])).toEqual([{ '0': 'cam-a19705-0' }])
    expect(choose(uneven, ['0'], ['1'], ['2'])).toEqual([
      { '0': 'cam-a19705-0' },
      { '1': 'cam-8120fe-1' },
      { '2': 'cam-a19705-1' },
    ])
  })

  it('R10 R32 belong to different devices within a container', () => {
    expect(choose(FREE, ['0', '1'])).toEqual([{ '0': 'cam-8120fe-0', '1': 'cam-a19705-0' }])
  })

  it('A17 A22 are refused for a malformed or repeated id', () => {
    for (const odd of ['', 'x', '-1', '00', '1e3', 'cam-8120fe-0', '9'.repeat(400)])
      expect(choose(FREE, [odd])).toMatch(/is not an id of this/)
    expect(choose(FREE, ['0', '0'])).toMatch(/not all different/)
  })

  it('are the same slot for an id of two containers', () => {
    expect(choose(FREE, ['0'], ['0'])).toEqual([{ '0': 'cam-8120fe-0' }, { '0': 'cam-8120fe-0' }])
  })
})

describe('the preferred ids', () => {
  it('R13 can be allocated together', () => {
    const used = [
      camera('8120fe', ['C:0:node-a', 'C:3:node-a']),
      camera('a19705', ['', 'C:5:node-a']),
    ]
    const prefer = (size: number, mustInclude: string[] = []) =>
      preferredIds(used, { available: ['0', '1', '3', '5'], mustInclude, size })
    expect(prefer(1)).toEqual(['0'])
    expect(prefer(2)).toEqual(['0', '5'])
    expect(prefer(2, ['3'])).toEqual(['3', '5'])
    // There are two devices: a third id could not be allocated.
    expect(prefer(3)).toEqual(['0', '5'])
  })

  it('A16 R33 are claimed ids without a container first: other slots stay for other nodes', () => {
    const used = [camera('8120fe', ['C:1:node-a', '']), camera('a19705', ['', ''])]
    expect(preferredIds(used, { available: ['0', '1', '2'], mustInclude: [], size: 1 })).toEqual([
      '1',
    ])
    expect(preferredIds(used, { available: ['0', '1', '2'], mustInclude: [], size: 2 })).toEqual([
      '1',
      '0',
    ])
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
/** Instances as they can be: one id of a node stands for one slot. */
const instances = fc
  .array(fc.array(usage, { minLength: 1, maxLength: 4 }), { maxLength: 5 })
  .map((all) => {
    const seen = new Set<string>()
    return all.map((usages, index) =>
      camera(
        `00000${index}`,
        usages.map((each) => {
          if (!each.startsWith('C:')) return each
          if (seen.has(each)) return ''
          seen.add(each)
          return each
        }),
      ),
    )
  })

describe('nodes that choose at the same moment', () => {
  it('A16 choose different slots of a device if there are enough, also at the two levels', () => {
    const nodes = ['node-a', 'node-b'] as NodeName[]
    const seenBy = (node: NodeName) => camera('8120fe', ['', '', ''], { nodes }, node)
    const chosen = nodes.map((node) => {
      const choice = chooseSlots([seenBy(node)], [['0']])
      return choice.ok ? choice.containers[0]?.[0]?.slot : choice.reason
    })
    expect(chosen).toEqual(['cam-8120fe-0', 'cam-8120fe-2'])
    const ofInstance = nodes.map((node) =>
      preferredSlots(seenBy(node), node, {
        available: [...seenBy(node).slots.keys()],
        mustInclude: [],
        size: 1,
      }),
    )
    expect(ofInstance.flat()).toEqual(chosen)
  })

  it('R7 A20 choose no slot that waits for a claim beyond a lowered capacity', () => {
    const nodes = ['node-a', 'node-b'] as NodeName[]
    const more = { nodes, beyond: heldBeyond('node-b') }
    const all = camera('8120fe', ['', '', ''], more, 'node-b' as NodeName)
    const choice = chooseSlots([all], [['0']])
    expect(choice).toMatchObject({ ok: true, containers: [[{ slot: 'cam-8120fe-1' }]] })
  })
})

describe('for any slots and requests', () => {
  it('R84 no slot gets two ids, no claim moves, and no container gets a device twice', () => {
    const requests = fc.array(fc.uniqueArray(fc.nat({ max: 8 }).map(String), { maxLength: 4 }), {
      maxLength: 4,
    })
    fc.assert(
      fc.property(instances, requests, (all, wanted) => {
        const choice = chooseSlots(all, wanted)
        if (!choice.ok) return
        const bySlot = new Map<string, string>()
        for (const [at, container] of choice.containers.entries()) {
          expect(container.map(({ id }) => id)).toEqual(wanted[at])
          expect(new Set(container.map(({ instance }) => instance)).size).toBe(container.length)
          for (const { id, slot, instance, claimed } of container) {
            expect(bySlot.get(slot) ?? id).toBe(id)
            bySlot.set(slot, id)
            const before = all.find(({ served }) => served.name === instance)?.slots.get(slot)
            expect(before).toEqual(
              claimed
                ? { level: 'configuration', virtualId: id, node: NODE }
                : expect.objectContaining({ level: 'free' }),
            )
          }
        }
      }),
    )
  })

  it('R13 each advertised id can be allocated, and all preferred ids together', () => {
    fc.assert(
      fc.property(instances, fc.nat({ max: 5 }), (all, size) => {
        const advertised = advertisedIds(all).map(({ id }) => id)
        expect(new Set(advertised).size).toBe(advertised.length)
        for (const id of advertised) expect(chooseSlots(all, [[id]])).toMatchObject({ ok: true })
        const preferred = preferredIds(all, { available: advertised, mustInclude: [], size })
        expect(preferred.length).toBeLessThanOrEqual(size)
        if (preferred.length > 0) expect(chooseSlots(all, [preferred])).toMatchObject({ ok: true })
        // As many as devices with a slot for this node.
        const usable = all.filter(({ slots }) =>
          [...slots.values()].some(
            (each) =>
              each.level === 'free' || (each.level === 'configuration' && each.node === NODE),
          ),
        )
        expect(preferred.length).toBe(Math.min(size, usable.length))
      }),
    )
  })

  it('many devices for one container are preferred by few looks at each', () => {
    let looks = 0
    const all = Array.from({ length: 1000 }, (_, index) => {
      const { free, ...each } = camera(index.toString(16).padStart(6, '0'), [''])
      const look = () => {
        looks++
        return free
      }
      return Object.defineProperty({ ...each, free }, 'free', { get: look })
    })
    const available = advertisedIds(all).map(({ id }) => id)
    const request = { available, mustInclude: [], size: 1000 }
    expect(preferredIds(all, request)).toHaveLength(1000)
    expect(looks).toBeLessThan(20 * 1000)
  })

  it('preferred ids are those that are possible one after the other', () => {
    const ids = fc.uniqueArray(fc.nat({ max: 8 }).map(String), { maxLength: 9 })
    fc.assert(
      fc.property(instances, ids, ids, fc.nat({ max: 9 }), (all, available, mustInclude, size) => {
        const one = [...mustInclude]
        const held = new Set(
          all.flatMap(({ slots }) =>
            [...slots.values()].flatMap((usage) =>
              usage.level === 'configuration' && usage.node === NODE ? usage.virtualId : [],
            ),
          ),
        )
        const left = available.filter((id) => !mustInclude.includes(id)).sort()
        for (const id of [
          ...left.filter((each) => held.has(each)),
          ...left.filter((each) => !held.has(each)),
        ])
          if (one.length < size && chooseSlots(all, [[...one, id]]).ok) one.push(id)
        expect(preferredIds(all, { available, mustInclude, size })).toEqual(one)
      }),
    )
  })

  it('R34 a single container is refused only if there are not enough different devices', () => {
    fc.assert(
      fc.property(instances, fc.nat({ max: 5 }), (all, count) => {
        const claimed = new Set(advertisedIds(all).map(({ id }) => id))
        const fresh = Array.from({ length: 40 }, (_, index) => String(index)).filter(
          (id) => !claimed.has(id) || isFresh(all, id),
        )
        const request = fresh.slice(0, count)
        const withFree = all.filter(({ slots }) =>
          [...slots.values()].some(({ level }) => level === 'free'),
        ).length
        expect(chooseSlots(all, [request]).ok).toBe(request.length <= withFree)
      }),
    )
  })
})

/** An id that stands for no claim of this node. */
function isFresh(all: readonly InstanceSlots[], id: string): boolean {
  return !all.some(({ slots }) =>
    [...slots.values()].some(
      (each) => each.level === 'configuration' && each.node === NODE && each.virtualId === id,
    ),
  )
}

describe('the ids of a Configuration beside the existing system', () => {
  const form = virtualIds('cam' as ConfigurationName, 'akri-0.13')
  const beside = (instances: readonly InstanceSlots[]) =>
    advertisedIds(instances, new Map(), form).map(({ id }) => id)

  it('R26 have its form, and stand in the order of their numbers', () => {
    expect(beside(FREE)).toEqual(['cam-0', 'cam-1'])
    const claimed = ['C:cam-10:node-a', 'C:cam-2:node-a', 'C:cam-0:node-a', '']
    expect(beside([camera('8120fe', claimed)])).toEqual(['cam-0', 'cam-1', 'cam-2', 'cam-10'])
  })

  it('keep the form in which a container got them', () => {
    expect(beside([camera('8120fe', ['C:0:node-a', ''])])).toEqual(['cam-0', '0'])
    const choice = chooseSlots([camera('8120fe', ['C:0:node-a', ''])], [['0']], form)
    expect(choice).toMatchObject({ ok: true, containers: [[{ id: '0', claimed: true }]] })
  })

  it('have no other form for new claims', () => {
    for (const id of ['0', 'cam-', 'cam-01', 'cam-x', 'cam-1234567890', 'cam-0-0', 'dam-0'])
      expect(chooseSlots(FREE, [[id]], form)).toEqual({
        ok: false,
        reason: `["${id}"] is not an id of this resource`,
      })
    expect(chooseSlots(FREE, [['cam-7']], form)).toMatchObject({ ok: true })
  })

  it('are preferred in their order', () => {
    const available = ['cam-10', 'cam-2', 'cam-1']
    const request = { available, mustInclude: [], size: 2 }
    expect(preferredIds(FREE, request, form)).toEqual(['cam-1', 'cam-2'])
  })
})
