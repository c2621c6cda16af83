import type { NodeName, ObjectKey } from '@akrijs/kube/objects'
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { eventually } from '../../../test/support/eventually.js'
import { deviceIdAnnotation } from '../instances/existing-instances.js'
import {
  found,
  NODE_A,
  NODE_B,
  NODES,
  type TestedCluster,
  TestedInstance,
} from './tested-cluster.contract.js'

/** The contract of a cluster for the claims of slots, and for what their workloads report. */
export function slotsContract(tested: TestedCluster): void {
  it('R7 R84 restores a claim, also beyond the capacity, and replaces no other claim', async () => {
    const instance = await tested.instance(1)
    const claim = `C:0:${NODE_A}`
    expect(await instance.claim(0, NODE_B)).toBe('claimed')
    expect(await instance.restore(0, NODE_A)).toBe(`taken by ${NODE_B}`)
    expect(await instance.restore(4, claim)).toBe('claimed')
    expect(await instance.restore(4, NODE_B)).toBe(`taken by ${claim}`)
    expect(instance.usage).toEqual({ 0: NODE_B, 4: claim })
    // No claim is accepted before both are released.
    expect(await instance.release(0, NODE_B)).toBe('released')
    expect(await instance.claim(0, NODE_A)).toBe('gone')
    expect(await instance.release(4, claim)).toBe('released')
    expect(instance.usage).toEqual({ 0: '' })
    expect(await instance.restore(0, NODE_A)).toBe('claimed')
    expect(await instance.restore('nonsense', NODE_A)).toBe('gone')
    const none = new TestedInstance(tested, instance.draft, 'default/none-8120fe' as ObjectKey)
    expect(await none.restore(0, NODE_A)).toBe('gone')
  })

  it('R84 lets a node join with its claims, and replaces no other claim', async () => {
    const instance = await tested.instance(2)
    await instance.claim(1, NODE_A)
    const claims = { 0: `C:0:${NODE_B}`, 1: NODE_B, 2: NODE_B }
    expect(await instance.join(NODE_B, claims)).toBe('joined')
    expect(instance.now?.spec.nodes).toEqual([NODE_A, NODE_B])
    expect(instance.usage).toEqual({ ...claims, 1: NODE_A })
    expect(await instance.join(NODE_B, { 1: NODE_B })).toBe('already-joined')
    expect(instance.usage[1]).toBe(NODE_A)
  })

  it('R80 claims a slot, and R85 answers and releases by the present claim', async () => {
    const instance = await tested.instance(1)
    expect(await instance.claim(0, NODE_A)).toBe('claimed')
    expect(await instance.claim(0, NODE_B)).toBe(`taken by ${NODE_A}`)
    expect(await instance.release(0, NODE_B)).toBe('changed')
    await instance.showsUsage({ 0: NODE_A })
    expect(await instance.release(0, NODE_A)).toBe('released')
    expect(await instance.release(0, NODE_A)).toBe('changed')
    await instance.showsUsage({ 0: '' })
  })

  it('R80 writes no claim for a device into an Instance of another device', async () => {
    const draft = await tested.draft(1)
    const instance = await tested.create({ ...draft, annotations: deviceIdAnnotation('a\n') })
    const before = instance.now
    expect(await instance.claim(0, NODE_B, 'b')).toBe('gone')
    expect(instance.now).toBe(before)
    expect(await instance.claim(0, NODE_B, 'a\n')).toBe('claimed')
  })

  it('adds slots when the capacity is raised, and keeps claims when it is lowered', async () => {
    const instance = await tested.instance(2)
    await instance.update({ capacity: 4 })
    await instance.showsUsage({ 0: '', 1: '', 2: '', 3: '' })
    await instance.claim(3, NODE_A)
    await instance.update({ capacity: 1 })
    await instance.showsUsage({ 0: '', 3: NODE_A })
    // The Instance is full, by another slot.
    for (const index of [2, 0]) expect(await instance.claim(index, NODE_A)).toBe('gone')
    await instance.release(3, NODE_A)
    await instance.showsUsage({ 0: '' })
    expect(await instance.claim(0, NODE_A)).toBe('claimed')
  })

  it('R84 accepts no slot twice and loses no claim, for any concurrent writes', async () => {
    const kinds = ['claim', 'claim', 'claim', 'release', 'release', 'resize'] as const
    const step = fc.record({
      kind: fc.constantFrom(...kinds),
      node: fc.constantFrom(...NODES),
      index: fc.nat({ max: 4 }),
    })
    const batch = fc.array(step, { maxLength: 8 })
    await fc.assert(
      fc.asyncProperty(fc.array(batch, { maxLength: 5 }), async (batches) => {
        const instance = await tested.instance(3, NODES)
        // The claims by the answers, which must be those of the object.
        const held = new Map<number, string>()
        let claims = 0
        for (const batch of batches) {
          const mine = new Map(held)
          await Promise.all(
            batch.map(async ({ kind, node, index }) => {
              const before = kind === 'release' ? mine.get(index) : undefined
              if (kind === 'resize') await instance.update({ capacity: index + 1 })
              else if (kind === 'claim') {
                // Each claim has its own usage, which tells the accepted claim.
                const usage = `C:${claims++}:${node}`
                if ((await instance.claim(index, usage)) !== 'claimed') return
                expect(held.has(index)).toBe(false)
                held.set(index, usage)
              } else if (before !== undefined) {
                mine.delete(index)
                // Before the answer: the slot may be claimed as soon as it is free.
                held.delete(index)
                expect(await instance.release(index, before)).toBe('released')
              }
            }),
          )
          await eventually(() => {
            const taken = Object.entries(instance.usage).filter(([, usage]) => usage !== '')
            expect(Object.fromEntries(taken)).toEqual(Object.fromEntries(held))
            for (let at = 0; at < found(instance.now).spec.capacity; at++)
              expect(instance.usage).toHaveProperty(String(at))
          })
        }
        const { namespace, owner } = instance.draft
        await tested.adapter.removeConfiguration({ namespace, name: owner.metadata.name })
      }),
      { numRuns: 25, endOnFailure: true },
    )
  })

  it('R69 writes changed reports of workloads, and keeps slots and generation', async () => {
    const instance = await tested.instance(2)
    await instance.claim(0, NODE_A)
    const before = await instance.showsUsage({ 0: NODE_A, 1: '' })
    let version: string | undefined
    for (const files of [
      { 'firmware-version': '1.0', constructor: '' },
      { 'firmware-version': '1.1', state: 'ä\n\0"' },
    ]) {
      expect(await instance.report(NODE_A, { 0: files })).toBe('reported')
      await instance.showsInfo(files)
      version = instance.now?.metadata.resourceVersion
      expect(await instance.report(NODE_A, { 0: files })).toBe('reported')
    }
    const slot = instance.slot(0)
    expect(instance.now).toMatchObject({
      status: { brokerInfoSlots: { 'firmware-version': slot, state: slot } },
      spec: before.spec,
      metadata: { generation: before.metadata.generation, resourceVersion: version },
    })
    expect(await instance.report(NODE_A, { 0: {} })).toBe('reported')
    await instance.showsInfo({})
    const none = new TestedInstance(tested, instance.draft, 'default/none-8120fe' as ObjectKey)
    expect(await none.report(NODE_A, { 0: { a: '1' } })).toBe('gone')
  })

  it('R69 loses no report and no claim in concurrent writes', async () => {
    const instance = await tested.instance(5)
    const slots = [0, 1, 2, 3, 4]
    await Promise.all(
      slots.map(async (index) => {
        const node = `node-${index}` as NodeName
        await instance.claim(index, node)
        for (const round of ['1', '2', '3'])
          await instance.report(node, { [index]: { [`f${index}`]: round } })
      }),
    )
    await instance.showsInfo({ f0: '3', f1: '3', f2: '3', f3: '3', f4: '3' })
    expect(Object.values(instance.usage)).toEqual(slots.map((index) => `node-${index}`))
  })
}
