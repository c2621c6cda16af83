import { objectKey } from '@akrijs/kube/objects'
import { expect, it } from 'vitest'
import { draftOf } from '../testing/objects.js'
import { NODE_A, NODE_B, NODES, type TestedCluster } from './tested-cluster.contract.js'

/** The contract of a cluster for Instances and their nodes. */
export function instancesContract(tested: TestedCluster): void {
  it('R79 R84 creates an Instance with free slots, except the claims of its draft', async () => {
    expect((await tested.instance(3)).usage).toEqual({ 0: '', 1: '', 2: '' })
    const draft = await tested.draft(2)
    const deviceUsage = { [`${draft.name}-1`]: `C:0:${NODE_A}` }
    const instance = await tested.create({ ...draft, spec: { ...draft.spec, deviceUsage } })
    expect(instance.usage).toEqual({ 0: '', 1: `C:0:${NODE_A}` })
  })

  it.each([
    ['shared', true, { 'akri.sh/shared': 'true' }],
    ['local', false, { 'akri.sh/node': NODE_A }],
  ])('makes a %s Instance with its owner and its labels', async (_what, shared, labels) => {
    const instance = await tested.create(await tested.draft(1, [NODE_A], { shared }))
    const { uid } = instance.draft.owner.metadata
    const owner = { apiVersion: 'akri.sh/v0', kind: 'Configuration', uid, controller: true }
    expect(instance.now?.metadata).toMatchObject({ labels, ownerReferences: [owner] })
    expect(instance.now?.metadata.labels).toEqual(labels)
  })

  it('R98 creates an Instance once for concurrent nodes', async () => {
    const { owner } = await tested.draft(1)
    const outcomes = await Promise.all(
      NODES.map((node) => tested.cluster.createInstance(draftOf(owner, 1, [node], '8120fe'))),
    )
    expect(outcomes.toSorted()).toEqual(['created', 'exists', 'exists'])
  })

  it.each([true, false])('shows the Instance that was there first (shared: %s)', async (shared) => {
    const draft = await tested.draft(1, [NODE_B], { shared })
    const key = objectKey(draft.namespace, draft.name)
    await tested.cluster.createInstance(draft)
    const own = { ...draft, spec: { ...draft.spec, nodes: [NODE_A] } }
    expect(await tested.cluster.createInstance(own)).toBe('exists')
    expect(tested.cluster.instances.get(key)?.spec.nodes).toEqual([NODE_B])
    expect(await tested.cluster.leaveInstance(key, NODE_B)).toBe('deleted')
    await tested.create(own)
  })

  it('A10 A12 lets nodes join and leave without a change for other nodes', async () => {
    const instance = await tested.instance(2)
    expect(await instance.join(NODE_B)).toBe('joined')
    expect(await instance.join(NODE_B)).toBe('already-joined')
    await instance.claim(0, NODE_A)
    await instance.claim(1, `C:0:${NODE_B}`)
    expect(await instance.leave(NODE_B)).toBe('left')
    await instance.shows({ nodes: [NODE_A] })
    expect(instance.usage).toEqual({ 0: NODE_A, 1: '' })
    expect(await instance.release(0, NODE_A)).toBe('released')
    expect(await instance.claim(0, `C:1:${NODE_A}`)).toBe('claimed')
  })

  it('deletes an Instance with its last node', async () => {
    const instance = await tested.instance(1)
    expect(await instance.leave(NODE_A)).toBe('deleted')
    await instance.isGone()
    expect(await instance.leave(NODE_A)).toBe('gone')
    expect(await instance.join(NODE_B)).toBe('gone')
    expect(await instance.claim(0, NODE_B)).toBe('gone')
    expect(await instance.release(0, NODE_A)).toBe('gone')
    expect(await instance.update({ capacity: 2 })).toBe('gone')
  })

  it('A10 never loses a node that joins while the last one leaves', async () => {
    const instance = await tested.instance(1)
    for (let round = 0; round < 10; round++) {
      const leaving = () => instance.leave(NODE_A)
      const joining = () => instance.join(NODE_B)
      const first = round % 2 === 0 ? leaving() : undefined
      const join = joining()
      const [left, joined] = await Promise.all([first ?? leaving(), join])
      if (joined === 'joined') {
        expect(left).toBe('left')
        await instance.shows({ nodes: [NODE_B] })
        expect(await instance.leave(NODE_B)).toBe('deleted')
      } else expect([left, joined]).toEqual(['deleted', 'gone'])
      await instance.isGone()
      await tested.create(instance.draft)
    }
  })

  it('A11 changes properties and capacity of a shared Instance', async () => {
    const instance = await tested.instance(1, [NODE_A, NODE_B])
    const [north, south] = [{ SITE: 'north' }, { SITE: 'south' }]
    for (const [capacity, brokerProperties, shown] of [
      [2, north, north],
      [3, south, south],
      [4, undefined, south],
    ] as const) {
      const change = { capacity, ...(brokerProperties && { brokerProperties }) }
      expect(await instance.update(change)).toBe('updated')
      await instance.shows({ capacity, brokerProperties: shown })
    }
  })

  it('writes nothing if nothing changes', async () => {
    const instance = await tested.instance(2)
    await instance.update({ capacity: 2, brokerProperties: { A: '1', B: '2' } })
    await instance.claim(0, NODE_A)
    const { metadata } = await instance.showsUsage({ 0: NODE_A, 1: '' })
    await instance.update({ capacity: 2, brokerProperties: { B: '2', A: '1' } })
    await instance.join(NODE_A)
    await instance.claim(0, NODE_B)
    await instance.release(0, NODE_B)
    // A later change: when it is seen, earlier writes would have been seen.
    await instance.join(NODE_B)
    const after = await instance.shows({ nodes: expect.arrayContaining([NODE_B]) })
    expect(after.metadata.generation).toBe(metadata.generation + 1)
  })
}
