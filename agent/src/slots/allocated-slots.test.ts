import type { Configuration, SlotName } from '@akrijs/api'
import { type ObjectKey, objectKey } from '@akrijs/kube/objects'
import { describe, expect, it } from 'vitest'
import type { PodAllocation } from '../kubelet/kubelet.js'
import { type AllocatedSlotsInput, allocatedSlots } from './allocated-slots.js'
import type { SlotAllocation } from './allocation-ledger.js'

const [A, B] = ['cam-8120fe-0', 'cam-a19705-0'] as SlotName[]
const pod = objectKey('default', 'p')
const other = objectKey('default', 'q')
const any = (slot: SlotName | undefined, id = '0'): SlotAllocation => ({
  slot: slot ?? expect.fail(),
  resourceName: 'akri.sh/cam',
  id,
})

const container = (
  of: ObjectKey,
  ids: readonly string[],
  slots?: PodAllocation['slots'],
): PodAllocation => ({
  pod: of,
  ids: new Set(ids),
  ...(slots && { slots }),
})

/** The slots of the ids of a resource, as `id slot`. */
function slotsOf(
  resourceName: string,
  containers: readonly PodAllocation[],
  input: Partial<AllocatedSlotsInput> = {},
): string[] {
  const { resolved, unresolved } = allocatedSlots({
    allocated: new Map([[resourceName, containers]]),
    claimed: [],
    configurations: [],
    slotOf: () => undefined,
    isActive: () => true,
    ...input,
  })
  return [
    ...resolved.map(({ allocation: { id, slot } }) => `${id} ${slot}`),
    ...unresolved.map(({ id }) => `${id} ?`),
  ]
}

describe('the slot of an id that the kubelet lists', () => {
  it('R24 is the id itself if the resource is that of an Instance', () => {
    expect(
      slotsOf('akri.sh/cam-8120fe', [container(pod, ['cam-8120fe-0', 'cam-8120fe-3', 'x'])]),
    ).toEqual(['cam-8120fe-0 cam-8120fe-0', 'cam-8120fe-3 cam-8120fe-3', 'x ?'])
    expect(slotsOf('example.com/cam-8120fe', [container(pod, ['cam-8120fe-0'])])).toEqual([])
  })

  it('R25 of a Configuration is that of the container, of a claim, or of a record before', () => {
    const annotated = [container(pod, ['0'], new Map([['0', B ?? expect.fail()]]))]
    const plain = [container(pod, ['0'])]
    expect(slotsOf('akri.sh/cam', annotated, { claimed: [any(A)] })).toEqual([`0 ${B}`])
    expect(slotsOf('akri.sh/cam', plain, { claimed: [any(A)], slotOf: () => B })).toEqual([
      `0 ${A}`,
    ])
    expect(slotsOf('akri.sh/cam', plain, { claimed: [any(A, '1')], slotOf: () => B })).toEqual([
      `0 ${B}`,
    ])
    expect(slotsOf('akri.sh/cam', plain, { claimed: [any(A), any(B)], slotOf: () => B })).toEqual([
      `0 ${B}`,
    ])
    expect(slotsOf('akri.sh/cam', plain, { claimed: [any(A), any(B)] })).toEqual([`0 ${A}`])
    expect(slotsOf('akri.sh/cam', plain)).toEqual(['0 ?'])
  })

  it('is unresolved if a Configuration has a name like an Instance', () => {
    const configurations = [{ metadata: { name: 'cam-8120fe' } } as Configuration]
    expect(
      slotsOf('akri.sh/cam-8120fe', [container(pod, ['cam-8120fe-0'])], { configurations }),
    ).toEqual(['cam-8120fe-0 ?'])
  })

  it('R90 is left out for inactive Pods, and listed once for several containers of a Pod', () => {
    const containers = [
      container(pod, ['0']),
      container(pod, ['0', '1']),
      container(other, ['1', '2']),
    ]
    const slotOf = (_: string, id: string) => `cam-8120fe-${id}` as SlotName
    const isActive = (which: ObjectKey) => which === pod
    expect(slotsOf('akri.sh/cam', containers, { slotOf, isActive })).toEqual([
      '0 cam-8120fe-0',
      '1 cam-8120fe-1',
    ])
  })
})
