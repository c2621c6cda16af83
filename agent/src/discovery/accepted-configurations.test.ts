import { type Configuration, type ConfigurationName, possibleOwner } from '@akrijs/api'
import { keyOf } from '@akrijs/kube/objects'
import fc from 'fast-check'
import { beforeEach, describe, expect, it } from 'vitest'
import { ObjectStore } from '../cluster/object-store.js'
import { configurationWith } from '../testing/objects.js'
import { AcceptedConfigurations } from './accepted-configurations.js'

let all: ObjectStore<Configuration>
let accepted: AcceptedConfigurations

beforeEach(() => {
  all = new ObjectStore()
  accepted = new AcceptedConfigurations(all, new AbortController().signal)
})

const configuration = (
  namespace: string,
  creationTimestamp: string,
  uid = namespace,
  name = 'cam',
) => configurationWith({}, { name: name as ConfigurationName, namespace, uid, creationTimestamp })

const inForce = () => accepted.list().map(keyOf).sort()

describe('the Configurations that the agent serves', () => {
  it('A8 are the oldest of those with the same name, in any order of arrival', () => {
    const [old, young] = [
      configuration('b', '2026-01-01T00:00:00Z'),
      configuration('a', '2026-01-02T00:00:00Z'),
    ]
    for (const order of [
      [old, young],
      [young, old],
    ]) {
      for (const each of [old, young]) all.remove(keyOf(each))
      for (const each of order) all.put(each)
      expect(inForce()).toEqual(['b/cam'])
      expect(accepted.get(keyOf(old))?.metadata.uid).toBe('b')
      expect(accepted.get(keyOf(young))).toBeUndefined()
      expect(accepted.rival(keyOf(young))?.metadata.uid).toBe('b')
      expect(accepted.rival(keyOf(old))).toBeUndefined()
    }
  })

  it('A8 are ordered by uid if they were created in the same second', () => {
    all.put(configuration('a', '2026-01-01T00:00:00Z', '2'))
    all.put(configuration('b', '2026-01-01T00:00:00Z', '1'))
    expect(inForce()).toEqual(['b/cam'])
  })

  it('include all Configurations with different names', () => {
    all.put(configuration('a', '2026-01-01T00:00:00Z'))
    all.put(configuration('a', '2026-01-02T00:00:00Z', 'a2', 'mic'))
    expect(inForce()).toEqual(['a/cam', 'a/mic'])
  })

  it('A8 are replaced by the next of the name; listeners hear of both', () => {
    const [old, young] = [
      configuration('b', '2026-01-01T00:00:00Z'),
      configuration('a', '2026-01-02T00:00:00Z'),
    ]
    all.put(old)
    all.put(young)
    const told: string[] = []
    accepted.onChange((key) => told.push(key), new AbortController().signal)
    all.remove(keyOf(old))
    expect(told).toEqual(['b/cam', 'a/cam'])
    expect(inForce()).toEqual(['a/cam'])
    expect(accepted.get(keyOf(young))).toBe(young)
  })

  it('do not call listeners for a change that is neither a birth nor a death', () => {
    const [old, young] = [
      configuration('b', '2026-01-01T00:00:00Z'),
      configuration('a', '2026-01-02T00:00:00Z'),
    ]
    for (const each of [old, young]) all.put(each)
    const told: string[] = []
    accepted.onChange((key) => told.push(key), new AbortController().signal)
    all.put({ ...old, metadata: { ...old.metadata, resourceVersion: '2' } })
    expect(told).toEqual(['b/cam'])
  })
})

describe('a Configuration whose name could be that of an Instance', () => {
  const [first, second, third] = [
    '2026-01-01T00:00:00Z',
    '2026-01-02T00:00:00Z',
    '2026-01-03T00:00:00Z',
  ] as const
  const named = (name: string, namespace: string, time: string, uid = `${namespace}-${name}`) =>
    configuration(namespace, time, uid, name)

  it.each(['factory', 'line'])(
    'is left out if the Instance has an older Configuration, in any order, in namespace %s',
    (namespace) => {
      const owner = named('cam', 'factory', first)
      const clash = named('cam-8120fe', namespace, second)
      for (const order of [
        [owner, clash],
        [clash, owner],
      ]) {
        for (const each of order) all.remove(keyOf(each))
        for (const each of order) all.put(each)
        expect(inForce()).toEqual(['factory/cam'])
        expect(accepted.rival(keyOf(clash))).toBe(owner)
        expect(accepted.get(keyOf(clash))).toBeUndefined()
        expect(accepted.takenNames(owner).size).toBe(0)
      }
    },
  )

  it('is served if it is older, and takes one name from the Instances of the other', () => {
    const clash = named('cam-8120fe', 'line', first)
    const owner = named('cam', 'factory', second)
    for (const each of [owner, clash, named('cam-a19705', 'factory', third)]) all.put(each)
    expect(inForce()).toEqual(['factory/cam', 'line/cam-8120fe'])
    expect([...accepted.takenNames(owner)]).toEqual([['cam-8120fe', clash]])
    expect(accepted.takenNames(clash).size).toBe(0)
  })

  it('is decided by uid if both were created in the same second', () => {
    const owner = named('cam', 'factory', first, '2')
    all.put(owner)
    const before = named('cam-8120fe', 'line', first, '1')
    const after = named('cam-a19705', 'line', first, '3')
    for (const each of [before, after]) all.put(each)
    expect(inForce()).toEqual(['factory/cam', 'line/cam-8120fe'])
    expect([...accepted.takenNames(owner).keys()]).toEqual(['cam-8120fe'])
    expect(accepted.rival(keyOf(after))).toBe(owner)
  })

  it.each([
    'line-abc123',
    'cam-8120FE',
    'cam-8120f',
    'cam-8120fe0',
    'cam-8120fg',
    'cam8120fe',
    'cam.8120fe',
    'webcam-8120fe',
  ])('is served if no other Configuration could have that Instance: %s', (name) => {
    for (const each of [named('cam', 'factory', first), named(name, 'line', second)]) all.put(each)
    expect(inForce()).toEqual(['factory/cam', `line/${name}`])
  })

  it('is left out also if its rival is left out: no deletion takes a resource away', () => {
    const [a, b, c] = [
      named('cam', 'a', first),
      named('cam-8120fe', 'b', second),
      named('cam-8120fe-a19705', 'c', third),
    ]
    for (const each of [c, b, a]) all.put(each)
    expect(inForce()).toEqual(['a/cam'])
    all.remove(keyOf(a))
    expect(inForce()).toEqual(['b/cam-8120fe'])
    expect(accepted.rival(keyOf(c))).toBe(b)
  })

  it('is served after its rival is deleted, and listeners hear of both', () => {
    const [owner, clash, other] = [
      named('cam', 'factory', first),
      named('cam-8120fe', 'line', second),
      named('mic', 'line', second),
    ]
    for (const each of [owner, clash, other]) all.put(each)
    const told: string[] = []
    accepted.onChange((key) => told.push(key), new AbortController().signal)
    all.remove(keyOf(owner))
    expect(told).toEqual(['factory/cam', 'line/cam-8120fe'])
    expect(inForce()).toEqual(['line/cam-8120fe', 'line/mic'])
    all.put(named('cam', 'factory', third))
    all.remove(keyOf(clash))
    expect(told.slice(2)).toEqual([
      'factory/cam',
      'line/cam-8120fe',
      'line/cam-8120fe',
      'factory/cam',
    ])
  })

  it('is in the list if and only if it is found by its key, for any names and ages', () => {
    const name = fc.constantFrom('cam', 'cam-8120fe', 'cam-a19705', 'cam-8120fe-a19705', 'mic')
    const each = fc.record({
      name,
      namespace: fc.constantFrom('a', 'b', 'c'),
      time: fc.constantFrom(first, second, third),
      uid: fc.uuid(),
    })
    fc.assert(
      fc.property(fc.array(each, { maxLength: 12 }), (drafts) => {
        const store = new ObjectStore<Configuration>()
        const served = new AcceptedConfigurations(store, new AbortController().signal)
        for (const [index, { name, namespace, time, uid }] of drafts.entries())
          store.put(named(name, namespace, time, `${uid}-${index}`))
        const found = store.list().filter((one) => served.get(keyOf(one)) !== undefined)
        expect(served.list().map(keyOf).sort()).toEqual(found.map(keyOf).sort())
        // No two of them can have one resource: either the name is refused, or the Instance is.
        const names = found.map(({ metadata }) => metadata.name)
        expect(new Set(names).size).toBe(names.length)
        for (const one of found)
          for (const other of found)
            if (possibleOwner(other.metadata.name) === one.metadata.name)
              expect(served.takenNames(one).get(other.metadata.name)).toBe(other)
      }),
    )
  })
})
