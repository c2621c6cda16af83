import { expect, it } from 'vitest'
import { hasLongDigest, type InstanceName, instanceNameParts, slotNameParts } from './names.js'

const LONG = '0123456789abcdef'

it.each([
  ['cam-8120fe', 'cam', '8120fe'],
  ['cam-8120fe-a19705', 'cam-8120fe', 'a19705'],
  [`cam-${LONG}`, 'cam', LONG],
  [`cam-8120fe-${LONG}`, 'cam-8120fe', LONG],
  [`cam-${LONG}-8120fe`, `cam-${LONG}`, '8120fe'],
])('%s could be the name of an Instance', (name, configuration, digest) => {
  expect(instanceNameParts(name)).toEqual({ configuration, digest })
  expect(hasLongDigest(name as InstanceName)).toBe(digest === LONG)
  expect(slotNameParts(`${name}-10`)).toEqual({ instance: name, configuration })
})

it.each(['cam', 'cam-8120f', 'cam-8120fe0', 'cam-8120FE', `cam-${LONG}0`, '-8120fe', '8120fe'])(
  '%j could not be the name of an Instance',
  (name) => {
    expect(instanceNameParts(name)).toBeUndefined()
    expect(slotNameParts(`${name}-0`)).toBeUndefined()
  },
)

it.each(['cam-8120fe', 'cam-8120fe-01', 'cam-8120fe-x', 'cam-8120fe-', 'cam-8120fe-1234567890'])(
  '%j is not the name of a slot',
  (slot) => {
    expect(slotNameParts(slot)).toBeUndefined()
  },
)
