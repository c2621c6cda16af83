import { expect, it } from 'vitest'
import {
  missingFields,
  parseConfigurationEntries,
  parseConfigurationObject,
  parseConfigurationStatus,
  parseInstanceObject,
} from './api-objects.js'
import { packedConfiguration } from './packed-configuration.js'

const metadata = {
  name: 'cam',
  namespace: 'plant',
  uid: 'u',
  resourceVersion: '1',
  creationTimestamp: '2026-01-01T00:00:00Z',
}
const ready = { type: 'Ready', status: 'True', reason: 'R', message: 'text' }
const lastTransitionTime = '2026-01-01T00:00:00Z'

it('leaves out the conditions and entries of a status that make no sense, and no other', () => {
  const entry = { observedGeneration: 1, devices: 1, conditions: [ready] }
  const status = {
    observedGeneration: 1,
    conditions: [
      { ...ready, lastTransitionTime },
      { ...ready, type: 'Foreign', lastTransitionTime },
    ],
    devices: 1,
    slots: { total: 1, claimed: 0 },
    nodes: {
      a: entry,
      b: { ...entry, devices: 'many' },
      c: { ...entry, conditions: [{ ...ready, type: 'Foreign' }] },
      d: null,
    },
  }
  const read = { ...status, conditions: [{ ...ready, lastTransitionTime }], nodes: { a: entry } }
  expect(parseConfigurationStatus({ metadata, status })?.status).toEqual(read)
  expect(parseConfigurationEntries({ metadata, status })).toMatchObject({
    status: read,
    unreadableNodes: ['b', 'c', 'd'],
    otherConditions: [{ ...ready, type: 'Foreign', lastTransitionTime }],
  })
  expect(parseConfigurationEntries({ metadata })).toMatchObject({
    unreadableNodes: [],
    otherConditions: [],
  })
})

it('reads a Configuration that waited for the end of a list as any other', () => {
  const spec = {
    discoveryHandler: { name: 'x' },
    brokerSpec: { brokerPodSpec: { containers: [] } },
  }
  const managedFields = [{ manager: 'm', fieldsV1: { 'f:spec': {} } }]
  const object = { metadata: { ...metadata, managedFields }, spec }
  const packed = packedConfiguration(object)
  expect(packed).toMatchObject({ metadata: { managedFields: [{ manager: 'm' }] } })
  expect(JSON.stringify(packed)).not.toContain('fieldsV1')
  expect(parseConfigurationObject(object).ok).toBe(true)
  const value = Array.from({ length: 10_000 }, () => ({}))
  const many = { metadata, spec: { ...spec, brokerSpec: { brokerPodSpec: { value } } } }
  for (const each of [object, many, { metadata, spec: 7 }, { metadata }, {}, null])
    expect(parseConfigurationObject(packedConfiguration(each))).toEqual(
      parseConfigurationObject(each),
    )
})

it('keeps nothing of a spec with too many values, or too deep a nesting', () => {
  let deep: unknown = 1
  for (let depth = 0; depth < 200_000; depth++) deep = [deep]
  const many = Array.from({ length: 50_000 }, () => ({}))
  for (const [value, message] of [
    [deep, /nested more than 100 deep/],
    [many, /more than 50000 values/],
  ] as const) {
    const brokerSpec = { brokerPodSpec: { value } }
    const object = { metadata, spec: { discoveryHandler: { name: 'x' }, brokerSpec } }
    const packed = packedConfiguration(object)
    expect(JSON.stringify(packed).length).toBeLessThan(1000)
    expect(parseConfigurationObject(packed)).toMatchObject({
      ok: false,
      problems: [{ message: expect.stringMatching(message) }],
      found: { metadata },
    })
    expect(parseConfigurationObject(object).ok).toBe(false)
  }
})

it('keeps the conditions of other programs of an Instance as they are', () => {
  const spec = { configurationName: 'cam', cdiName: 'akri.sh/cam=8120fe', capacity: 1 }
  const foreign = { ...ready, type: 'Calibrated', lastTransitionTime, observedGeneration: 4 }
  const problem = { ...ready, type: 'DeviceProblem', status: 'Unknown', lastTransitionTime }
  const conditions = [foreign, 'nonsense', problem]
  expect(parseInstanceObject({ metadata, spec, status: { conditions } })?.status).toEqual({
    conditions: [foreign, problem],
  })
})

it('reads an Instance of Akri before 0.13.8, and names the fields that it lacks', () => {
  const early = {
    configurationName: 'cam',
    nodes: ['node-a'],
    deviceUsage: { 'cam-8120fe-0': 'node-a', 'cam-8120fe-1': '' },
  }
  const object = { metadata: { ...metadata, name: 'cam-8120fe' }, spec: early }
  const missing = { cdiName: 'akri.sh/cam=8120fe', capacity: 2 }
  expect(parseInstanceObject(object)?.spec).toMatchObject({ ...early, ...missing })
  expect(missingFields(object)).toEqual(missing)
  expect(missingFields({ ...object, spec: { ...early, ...missing, capacity: null } })).toEqual({
    capacity: 2,
  })
  expect(missingFields({ ...object, spec: { ...early, ...missing } })).toBeUndefined()
  expect(parseInstanceObject({ ...object, spec: { ...early, capacity: '2' } })).toBeUndefined()
})
