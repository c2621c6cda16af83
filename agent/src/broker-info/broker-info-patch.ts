import type { Instance } from '@akrijs/api'
import { type JsonPatch, pointer } from '@akrijs/kube/objects'
import type { BrokerInfoPlan } from './broker-info-plan.js'

const MAPS = ['brokerInfo', 'brokerInfoSlots'] as const

/**
 * Changes entries of `status.brokerInfo`, unless an entry has another writer by now, or a writer
 * has lost its slot.
 */
export function brokerInfoPatch(
  { spec, status, metadata }: Instance,
  { set, remove }: BrokerInfoPlan,
): JsonPatch {
  const slots = [...new Set(set.map(({ slot }) => slot))]
  const held = slots.map((slot) =>
    test(pointer('spec', 'deviceUsage', slot), spec.deviceUsage[slot] ?? ''),
  )
  const owners = status?.brokerInfoSlots ?? {}
  const owned = [...set.map(({ name }) => name), ...remove]
    .filter((name) => Object.hasOwn(owners, name))
    .map((name) => test(pointer('status', 'brokerInfoSlots', name), owners[name]))
  const missing = [
    ...(status === undefined ? [add(pointer('status'), {})] : []),
    ...MAPS.filter((map) => status?.[map] === undefined).map((map) =>
      add(pointer('status', map), {}),
    ),
  ]
  const written = set.flatMap(({ name, content, slot }) => [
    add(pointer('status', 'brokerInfo', name), content),
    add(pointer('status', 'brokerInfoSlots', name), slot),
  ])
  const removed = remove.flatMap((name) =>
    MAPS.filter((map) => Object.hasOwn(status?.[map] ?? {}, name)).map(
      (map) => ({ op: 'remove', path: pointer('status', map, name) }) as const,
    ),
  )
  // An absent value cannot be tested by its path.
  const unchanged =
    missing.length === 0
      ? []
      : [test(pointer('metadata', 'resourceVersion'), metadata.resourceVersion)]
  return [...unchanged, ...held, ...owned, ...missing, ...written, ...removed]
}

function test(path: string, value: unknown) {
  return { op: 'test', path, value } as const
}

function add(path: string, value: unknown) {
  return { op: 'add', path, value } as const
}
