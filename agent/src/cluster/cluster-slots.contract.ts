import type { SlotName } from '@akrijs/api'
import { keyOf, objectKey } from '@akrijs/kube/objects'
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { eventually } from '../../../test/support/eventually.js'
import { deviceIdAnnotation } from '../instances/existing-instances.js'
import {
  found,
  NODE_A,
  NODE_B,
  NODES,
  slot,
  type TestedCluster,
} from './tested-cluster.contract.js'

/** The contract of a cluster for the claims of slots. */
export function slotsContract(tested: TestedCluster): void {
  it('R7 R84 restores a claim, also beyond the capacity, and replaces no other claim', async () => {
    const instance = await tested.instance(1)
    const [key, ownSlot, beyond] = [keyOf(instance), slot(instance, 0), slot(instance, 4)]
    expect(await tested.cluster.claimSlot(key, ownSlot, NODE_B)).toEqual({ outcome: 'claimed' })
    expect(await tested.cluster.restoreSlot(key, ownSlot, NODE_A)).toEqual({
      outcome: 'taken',
      by: NODE_B,
    })
    expect(await tested.cluster.restoreSlot(key, beyond, `C:0:${NODE_A}`)).toEqual({
      outcome: 'claimed',
    })
    expect(await tested.cluster.restoreSlot(key, beyond, NODE_B)).toEqual({
      outcome: 'taken',
      by: `C:0:${NODE_A}`,
    })
    expect(tested.usageOf(instance)).toEqual({ [ownSlot]: NODE_B, [beyond]: `C:0:${NODE_A}` })
    // No claim is accepted before both are released.
    expect(await tested.cluster.releaseSlot(key, ownSlot, NODE_B)).toBe('released')
    expect(await tested.cluster.claimSlot(key, ownSlot, NODE_A)).toEqual({ outcome: 'gone' })
    expect(await tested.cluster.releaseSlot(key, beyond, `C:0:${NODE_A}`)).toBe('released')
    expect(tested.usageOf(instance)).toEqual({ [ownSlot]: '' })
    expect(await tested.cluster.restoreSlot(key, ownSlot, NODE_A)).toEqual({ outcome: 'claimed' })
    expect(await tested.cluster.restoreSlot(key, 'nonsense' as SlotName, NODE_A)).toEqual({
      outcome: 'gone',
    })
    expect(
      await tested.cluster.restoreSlot(objectKey('default', 'none-8120fe'), ownSlot, NODE_A),
    ).toEqual({ outcome: 'gone' })
  })

  it('R84 lets a node join with its claims, and replaces no other claim', async () => {
    const instance = await tested.instance(2)
    const [key, ownSlot, taken, beyond] = [
      keyOf(instance),
      slot(instance, 0),
      slot(instance, 1),
      slot(instance, 2),
    ]
    await tested.cluster.claimSlot(key, taken, NODE_A)
    const claims = { [ownSlot]: `C:0:${NODE_B}`, [taken]: NODE_B, [beyond]: NODE_B }
    expect(await tested.cluster.joinInstance(key, NODE_B, claims)).toBe('joined')
    expect(tested.current(instance)?.spec.nodes).toEqual([NODE_A, NODE_B])
    expect(tested.usageOf(instance)).toEqual({ ...claims, [taken]: NODE_A })
    expect(await tested.cluster.joinInstance(key, NODE_B, { [taken]: NODE_B })).toBe(
      'already-joined',
    )
    expect(tested.usageOf(instance)?.[taken]).toBe(NODE_A)
  })

  it('R80 writes the claim of a slot, and R85 answers a second claim with the first', async () => {
    const instance = await tested.instance(1)
    expect(await tested.cluster.claimSlot(keyOf(instance), slot(instance, 0), NODE_A)).toEqual({
      outcome: 'claimed',
    })
    expect(await tested.cluster.claimSlot(keyOf(instance), slot(instance, 0), NODE_B)).toEqual({
      outcome: 'taken',
      by: NODE_A,
    })
    await eventually(() =>
      expect(tested.usageOf(instance)).toEqual({ [slot(instance, 0)]: NODE_A }),
    )
  })

  it('R80 writes no claim for a device into an Instance of another device', async () => {
    const instance = await tested.instance(1, [NODE_A], '8120fe', deviceIdAnnotation('a\n'))
    const claim = (device: string) =>
      tested.cluster.claimSlot(keyOf(instance), slot(instance, 0), NODE_B, device)
    const before = tested.current(instance)
    expect(await claim('b')).toEqual({ outcome: 'gone' })
    expect(tested.current(instance)).toBe(before)
    expect(await claim('a\n')).toEqual({ outcome: 'claimed' })
  })

  it.each(['1', '00', '-1', '999999999999', 'x', ''])(
    'has no slot of index %j in an Instance of capacity 1',
    async (index) => {
      const instance = await tested.instance(1)
      const before = tested.current(instance)
      const wrong = `${instance.metadata.name}-${index}` as SlotName
      expect(await tested.cluster.claimSlot(keyOf(instance), wrong, NODE_A)).toEqual({
        outcome: 'gone',
      })
      expect(tested.current(instance)).toBe(before)
    },
  )

  it('R84 accepts five of fifty concurrent claims of five slots', async () => {
    const instance = await tested.instance(5)
    const claims = Array.from({ length: 50 }, (_, index) => ({
      slot: slot(instance, index % 5),
      usage: `node-${index}`,
    }))
    const outcomes = await Promise.all(
      claims.map((each) => tested.cluster.claimSlot(keyOf(instance), each.slot, each.usage)),
    )
    const winners = claims.filter((_, index) => outcomes[index]?.outcome === 'claimed')
    expect(new Set(winners.map((each) => each.slot)).size).toBe(5)
    expect(winners).toHaveLength(5)
    const held = Object.fromEntries(winners.map((each) => [each.slot, each.usage]))
    await eventually(() => expect(tested.usageOf(instance)).toEqual(held))
    for (const [index, outcome] of outcomes.entries()) {
      const claim = found(claims[index])
      if (outcome.outcome === 'taken') expect(outcome.by).toBe(held[claim.slot])
    }
  })

  it('R85 releases a slot only by its present claim', async () => {
    const instance = await tested.instance(1)
    await tested.cluster.claimSlot(keyOf(instance), slot(instance, 0), NODE_A)
    expect(await tested.cluster.releaseSlot(keyOf(instance), slot(instance, 0), NODE_B)).toBe(
      'changed',
    )
    await eventually(() =>
      expect(tested.usageOf(instance)).toEqual({ [slot(instance, 0)]: NODE_A }),
    )
    expect(await tested.cluster.releaseSlot(keyOf(instance), slot(instance, 0), NODE_A)).toBe(
      'released',
    )
    expect(await tested.cluster.releaseSlot(keyOf(instance), slot(instance, 0), NODE_A)).toBe(
      'changed',
    )
    await eventually(() => expect(tested.usageOf(instance)).toEqual({ [slot(instance, 0)]: '' }))
  })

  it('adds slots when the capacity is raised, and keeps claims when it is lowered', async () => {
    const instance = await tested.instance(2)
    await tested.cluster.updateInstance(keyOf(instance), { capacity: 4, brokerProperties: {} })
    await eventually(() =>
      expect(Object.values(tested.usageOf(instance) ?? {})).toEqual(['', '', '', '']),
    )
    await tested.cluster.claimSlot(keyOf(instance), slot(instance, 3), NODE_A)
    await tested.cluster.updateInstance(keyOf(instance), { capacity: 1, brokerProperties: {} })
    await eventually(() =>
      expect(tested.usageOf(instance)).toEqual({
        [slot(instance, 0)]: '',
        [slot(instance, 3)]: NODE_A,
      }),
    )
    expect(await tested.cluster.claimSlot(keyOf(instance), slot(instance, 2), NODE_A)).toEqual({
      outcome: 'gone',
    })
    // The Instance is full, by another slot.
    expect(await tested.cluster.claimSlot(keyOf(instance), slot(instance, 0), NODE_A)).toEqual({
      outcome: 'gone',
    })
    await tested.cluster.releaseSlot(keyOf(instance), slot(instance, 3), NODE_A)
    await eventually(() => expect(tested.usageOf(instance)).toEqual({ [slot(instance, 0)]: '' }))
    expect(await tested.cluster.claimSlot(keyOf(instance), slot(instance, 0), NODE_A)).toEqual({
      outcome: 'claimed',
    })
  })

  it('R84 accepts no slot twice and loses no claim, for any concurrent writes', async () => {
    const node = fc.constantFrom(...NODES)
    const index = fc.nat({ max: 4 })
    const step = fc.oneof(
      { weight: 6, arbitrary: fc.record({ do: fc.constant('claim' as const), node, index }) },
      { weight: 4, arbitrary: fc.record({ do: fc.constant('release' as const), node, index }) },
      {
        weight: 1,
        arbitrary: fc.record({
          do: fc.constant('resize' as const),
          capacity: fc.integer({ min: 1, max: 5 }),
        }),
      },
    )
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.array(step, { maxLength: 8 }), { maxLength: 5 }),
        async (batches) => {
          const instance = await tested.instance(3, NODES)
          // The claims by the answers, which must be those of the object.
          const held = new Map<string, string>()
          let claims = 0
          for (const batch of batches) {
            const mine = new Map(held)
            await Promise.all(
              batch.map(async (each) => {
                if (each.do === 'resize') {
                  await tested.cluster.updateInstance(keyOf(instance), {
                    capacity: each.capacity,
                    brokerProperties: {},
                  })
                  return
                }
                const wanted = slot(instance, each.index)
                if (each.do === 'claim') {
                  // Each claim has its own usage, which tells the accepted claim.
                  const usage = `C:${claims++}:${each.node}`
                  const { outcome } = await tested.cluster.claimSlot(keyOf(instance), wanted, usage)
                  if (outcome !== 'claimed') return
                  expect(held.has(wanted)).toBe(false)
                  held.set(wanted, usage)
                  return
                }
                const usage = mine.get(wanted)
                if (usage === undefined) return
                mine.delete(wanted)
                // Before the answer: the slot may be claimed as soon as it is free.
                held.delete(wanted)
                expect(await tested.cluster.releaseSlot(keyOf(instance), wanted, usage)).toBe(
                  'released',
                )
              }),
            )
            await eventually(() => {
              const now = found(tested.current(instance)).spec
              const taken = Object.entries(now.deviceUsage).filter(([, usage]) => usage !== '')
              expect(Object.fromEntries(taken)).toEqual(Object.fromEntries(held))
              for (let at = 0; at < now.capacity; at++)
                expect(Object.hasOwn(now.deviceUsage, slot(instance, at))).toBe(true)
            })
          }
          await tested.adapter.removeConfiguration({
            namespace: instance.metadata.namespace,
            name: instance.spec.configurationName,
          })
        },
      ),
      { numRuns: 25, endOnFailure: true },
    )
  })
}
