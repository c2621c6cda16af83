import { keyOf, objectKey } from '@akrijs/kube/objects'
import { expect, it } from 'vitest'
import { eventually } from '../../../test/support/eventually.js'
import { draftOf } from '../testing/objects.js'
import {
  found,
  NODE_A,
  NODE_B,
  NODES,
  slot,
  type TestedCluster,
} from './tested-cluster.contract.js'

/** The contract of a cluster for Instances and their nodes. */
export function instancesContract(tested: TestedCluster): void {
  it('R79 creates an Instance with as many free slots as its capacity', async () => {
    const instance = await tested.instance(3)
    const { name: ownName } = instance.metadata
    expect(instance.spec.deviceUsage).toEqual({
      [`${ownName}-0`]: '',
      [`${ownName}-1`]: '',
      [`${ownName}-2`]: '',
    })
  })

  it('R84 creates an Instance with the claims of the draft, and its other slots free', async () => {
    const draft = draftOf(await tested.configuration(), 2, [NODE_A], '8120fe')
    const claims = { [`${draft.name}-1`]: `C:0:${NODE_A}` }
    expect(
      await tested.cluster.createInstance({
        ...draft,
        spec: { ...draft.spec, deviceUsage: claims },
      }),
    ).toBe('created')
    const instance = await eventually(() =>
      found(tested.cluster.instances.get(objectKey(draft.namespace, draft.name))),
    )
    expect(instance.spec.deviceUsage).toEqual({ [`${draft.name}-0`]: '', ...claims })
  })

  it('makes the Configuration the owner of its Instance', async () => {
    const instance = await tested.instance(1)
    const owner = tested.cluster.configurations
      .list()
      .find(({ metadata }) => metadata.name === (instance.spec.configurationName as string))
    expect(instance.metadata.ownerReferences).toMatchObject([
      {
        apiVersion: 'akri.sh/v0',
        kind: 'Configuration',
        uid: owner?.metadata.uid,
        controller: true,
      },
    ])
  })

  it('R98 creates an Instance once for concurrent nodes', async () => {
    const owner = await tested.configuration()
    const outcomes = await Promise.all(
      NODES.map((node) => tested.cluster.createInstance(draftOf(owner, 1, [node], '8120fe'))),
    )
    expect(outcomes.toSorted()).toEqual(['created', 'exists', 'exists'])
  })

  it('shows the Instance that was there first, also a local one of another node', async () => {
    const owner = await tested.configuration()
    for (const [digest, shared] of [
      ['8120fe', true],
      ['a19705', false],
    ] as const) {
      const draft = draftOf(owner, 1, [NODE_B], digest)
      const key = objectKey(draft.namespace, draft.name)
      await tested.cluster.createInstance({ ...draft, spec: { ...draft.spec, shared } })
      const own = { ...draft, spec: { ...draft.spec, shared, nodes: [NODE_A] } }
      expect(await tested.cluster.createInstance(own)).toBe('exists')
      expect(tested.cluster.instances.get(key)?.spec.nodes).toEqual([NODE_B])
      expect(await tested.cluster.leaveInstance(key, NODE_B)).toBe('deleted')
      await eventually(() => expect(tested.cluster.instances.get(key)).toBeUndefined())
      expect(await tested.cluster.createInstance(own)).toBe('created')
    }
  })

  it.each([
    ['shared', true, { 'akri.sh/shared': 'true' }],
    ['local', false, { 'akri.sh/node': NODE_A }],
  ])('labels a %s Instance', async (_what, shared, labels) => {
    const draft = draftOf(await tested.configuration(), 1, [NODE_A], '8120fe')
    await tested.cluster.createInstance({ ...draft, spec: { ...draft.spec, shared } })
    await eventually(() =>
      expect(
        tested.cluster.instances.get(objectKey(draft.namespace, draft.name))?.metadata.labels,
      ).toEqual(labels),
    )
  })

  it('A10 A12 lets nodes join and leave without a change for other nodes', async () => {
    const instance = await tested.instance(2)
    expect(await tested.cluster.joinInstance(keyOf(instance), NODE_B)).toBe('joined')
    expect(await tested.cluster.joinInstance(keyOf(instance), NODE_B)).toBe('already-joined')
    await tested.cluster.claimSlot(keyOf(instance), slot(instance, 0), NODE_A)
    await tested.cluster.claimSlot(keyOf(instance), slot(instance, 1), `C:0:${NODE_B}`)
    expect(await tested.cluster.leaveInstance(keyOf(instance), NODE_B)).toBe('left')
    await eventually(() => expect(tested.current(instance)?.spec.nodes).toEqual([NODE_A]))
    expect(tested.usageOf(instance)).toEqual({
      [slot(instance, 0)]: NODE_A,
      [slot(instance, 1)]: '',
    })
    expect(await tested.cluster.releaseSlot(keyOf(instance), slot(instance, 0), NODE_A)).toBe(
      'released',
    )
    expect(
      await tested.cluster.claimSlot(keyOf(instance), slot(instance, 0), `C:1:${NODE_A}`),
    ).toEqual({
      outcome: 'claimed',
    })
  })

  it('deletes an Instance with its last node', async () => {
    const instance = await tested.instance(1)
    expect(await tested.cluster.leaveInstance(keyOf(instance), NODE_A)).toBe('deleted')
    await eventually(() => expect(tested.current(instance)).toBeUndefined())
    expect(await tested.cluster.leaveInstance(keyOf(instance), NODE_A)).toBe('gone')
    expect(await tested.cluster.joinInstance(keyOf(instance), NODE_B)).toBe('gone')
    expect(await tested.cluster.claimSlot(keyOf(instance), slot(instance, 0), NODE_B)).toEqual({
      outcome: 'gone',
    })
    expect(await tested.cluster.releaseSlot(keyOf(instance), slot(instance, 0), NODE_A)).toBe(
      'gone',
    )
    expect(
      await tested.cluster.updateInstance(keyOf(instance), { capacity: 2, brokerProperties: {} }),
    ).toBe('gone')
  })

  it('A10 never loses a node that joins while the last one leaves', async () => {
    const instance = await tested.instance(1)
    for (let round = 0; round < 10; round++) {
      const [leave, join] = await Promise.all(
        round % 2 === 0
          ? [
              tested.cluster.leaveInstance(keyOf(instance), NODE_A),
              tested.cluster.joinInstance(keyOf(instance), NODE_B),
            ]
          : await Promise.all([
              tested.cluster.joinInstance(keyOf(instance), NODE_B),
              tested.cluster.leaveInstance(keyOf(instance), NODE_A),
            ]).then(([joined, left]) => [left, joined] as const),
      )
      if (join === 'joined') {
        expect(leave).toBe('left')
        await eventually(() => expect(tested.current(instance)?.spec.nodes).toEqual([NODE_B]))
        expect(await tested.cluster.leaveInstance(keyOf(instance), NODE_B)).toBe('deleted')
      } else {
        expect([leave, join]).toEqual(['deleted', 'gone'])
      }
      await eventually(() => expect(tested.current(instance)).toBeUndefined())
      const owner = found(
        tested.cluster.configurations
          .list()
          .find(({ metadata }) => metadata.name === instance.spec.configurationName),
      )
      expect(await tested.cluster.createInstance(draftOf(owner, 1, [NODE_A], '8120fe'))).toBe(
        'created',
      )
      await eventually(() => found(tested.current(instance)))
    }
  })

  it('A10 deletes an Instance with its last nodes, which leave at the same moment', async () => {
    for (let round = 0; round < 10; round++) {
      const instance = await tested.instance(1, round % 2 === 0 ? NODES : NODES.toReversed())
      const outcomes = await Promise.all(
        NODES.map((node) => tested.cluster.leaveInstance(keyOf(instance), node)),
      )
      expect(outcomes.toSorted()).toEqual(['deleted', 'left', 'left'])
      await eventually(() => expect(tested.current(instance)).toBeUndefined())
    }
  })

  it('A11 changes properties and capacity of a shared Instance', async () => {
    const instance = await tested.instance(1, [NODE_A, NODE_B])
    expect(
      await tested.cluster.updateInstance(keyOf(instance), {
        capacity: 2,
        brokerProperties: { SITE: 'north' },
      }),
    ).toBe('updated')
    expect(
      await tested.cluster.updateInstance(keyOf(instance), {
        capacity: 3,
        brokerProperties: { SITE: 'south' },
      }),
    ).toBe('updated')
    await eventually(() =>
      expect(tested.current(instance)?.spec).toMatchObject({
        capacity: 3,
        brokerProperties: { SITE: 'south' },
      }),
    )
    expect(await tested.cluster.updateInstance(keyOf(instance), { capacity: 4 })).toBe('updated')
    await eventually(() =>
      expect(tested.current(instance)?.spec).toMatchObject({
        capacity: 4,
        brokerProperties: { SITE: 'south' },
      }),
    )
  })

  it('writes nothing if nothing changes', async () => {
    const instance = await tested.instance(2)
    await tested.cluster.updateInstance(keyOf(instance), {
      capacity: 2,
      brokerProperties: { A: '1', B: '2' },
    })
    await tested.cluster.claimSlot(keyOf(instance), slot(instance, 0), NODE_A)
    const before = await eventually(() => {
      expect(tested.usageOf(instance)?.[slot(instance, 0)]).toBe(NODE_A)
      return found(tested.current(instance))
    })
    await tested.cluster.updateInstance(keyOf(instance), {
      capacity: 2,
      brokerProperties: { B: '2', A: '1' },
    })
    await tested.cluster.joinInstance(keyOf(instance), NODE_A)
    await tested.cluster.claimSlot(keyOf(instance), slot(instance, 0), NODE_B)
    await tested.cluster.releaseSlot(keyOf(instance), slot(instance, 0), NODE_B)
    // A later change: when it is seen, earlier writes would have been seen.
    await tested.cluster.joinInstance(keyOf(instance), NODE_B)
    await eventually(() => expect(tested.current(instance)?.spec.nodes).toContain(NODE_B))
    expect(tested.current(instance)?.metadata.generation).toBe(before.metadata.generation + 1)
  })
}
