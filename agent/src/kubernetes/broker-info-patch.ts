import { type Instance, type JsonPatch, pointer } from '@akrijs/kube'
import { type BrokerInfoPlan, changedStatus } from '../broker-info/broker-info-plan.js'

const MAPS = ['brokerInfo', 'brokerInfoSlots'] as const

/** Changes entries of `status.brokerInfo`, if they are still whose they were, and the slots of their writers still held so. */
export function brokerInfoPatch(instance: Instance, plan: BrokerInfoPlan): JsonPatch {
  const { spec, status, metadata } = instance
  const slots = [...new Set(plan.set.map(({ slot }) => slot))]
  const held = slots.map((slot) => test(pointer('spec', 'deviceUsage', slot), spec.deviceUsage[slot] ?? ''))
  const { brokerInfo, brokerInfoSlots } = status ?? {}
  if (brokerInfo === undefined || brokerInfoSlots === undefined) {
    // What is absent cannot be tested for itself.
    const { resourceVersion } = metadata
    const whole = { op: 'add', path: pointer('status'), value: changedStatus(status, plan) } as const
    return [test(pointer('metadata', 'resourceVersion'), resourceVersion), whole]
  }
  const names = [...plan.set.map(({ name }) => name), ...plan.remove]
  const owned = names
    .filter((name) => Object.hasOwn(brokerInfoSlots, name))
    .map((name) => test(pointer('status', 'brokerInfoSlots', name), brokerInfoSlots[name]))
  const written = plan.set.flatMap(({ name, content, slot }) => [
    { op: 'add', path: pointer('status', 'brokerInfo', name), value: content } as const,
    { op: 'add', path: pointer('status', 'brokerInfoSlots', name), value: slot } as const,
  ])
  const removed = plan.remove.flatMap((name) =>
    MAPS.filter((map) => Object.hasOwn(status?.[map] ?? {}, name)).map(
      (map) => ({ op: 'remove', path: pointer('status', map, name) }) as const,
    ),
  )
  return [...held, ...owned, ...written, ...removed]
}

function test(path: string, value: unknown) {
  return { op: 'test', path, value } as const
}
