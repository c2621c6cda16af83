import type { Configuration, ConfigurationName } from '@akrijs/api'
import { keyOf, type ObjectKey } from '@akrijs/kube/objects'
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

const [first, second, third] = [
  '2026-01-01T00:00:00Z',
  '2026-01-02T00:00:00Z',
  '2026-01-03T00:00:00Z',
] as const

function keysTold(): string[] {
  const told: string[] = []
  accepted.onChange((key) => told.push(key), new AbortController().signal)
  return told
}

// `ConfigurationNames` decides which Configuration has a name.
describe('the Configurations that the agent serves', () => {
  it('A8 are the oldest of a name, then the next; listeners hear of both', () => {
    const [old, young] = [configuration('b', first), configuration('a', second)]
    for (const each of [young, old]) all.put(each)
    expect(inForce()).toEqual(['b/cam'])
    expect(accepted.rival(keyOf(young))).toBe(old)
    const told = keysTold()
    all.put({ ...old, metadata: { ...old.metadata, resourceVersion: '2' } })
    all.remove(keyOf(old))
    expect(told).toEqual(['b/cam', 'b/cam', 'a/cam'])
    expect([inForce(), accepted.get(keyOf(young))]).toEqual([['a/cam'], young])
  })

  it('are told when a name that an Instance could have is taken, and is free', () => {
    const [owner, line] = [configuration('factory', first), 'line/cam-8120fe' as ObjectKey]
    for (const each of [owner, configuration('line', second, 'l', 'cam-8120fe')]) all.put(each)
    const told = keysTold()
    all.remove(keyOf(owner))
    const young = configuration('factory', third)
    all.put(young)
    expect(inForce()).toEqual(['factory/cam', line])
    expect([...accepted.takenNames(young).keys()]).toEqual(['cam-8120fe'])
    all.remove(line)
    expect(told).toEqual(['factory/cam', line, 'factory/cam', line, line, 'factory/cam'])
  })
})
