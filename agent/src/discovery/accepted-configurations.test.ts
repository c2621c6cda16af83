import type { Configuration, ConfigurationName } from '@akrijs/api'
import { keyOf } from '@akrijs/kube/objects'
import { expect, it } from 'vitest'
import { ObjectStore } from '../cluster/object-store.js'
import { configurationWith } from '../testing/objects.js'
import { AcceptedConfigurations } from './accepted-configurations.js'

const configuration = (
  namespace: string,
  creationTimestamp: string,
  uid = namespace,
  name = 'cam',
) => configurationWith({}, { name: name as ConfigurationName, namespace, uid, creationTimestamp })

// `ConfigurationNames` decides which Configuration has a name.
it('A8 an agent serves the oldest Configuration of a name, and tells of all that changes', () => {
  const all = new ObjectStore<Configuration>()
  const { signal } = new AbortController()
  const accepted = new AcceptedConfigurations(all, signal)
  const [old, young] = [configuration('b', '2026-01-01'), configuration('a', '2026-01-02')]
  const line = configuration('line', '2026-01-03', 'l', 'cam-8120fe')
  for (const each of [young, old, line]) all.put(each)
  expect(accepted.list()).toEqual([old])
  expect([young, line].map((each) => accepted.rival(keyOf(each)))).toEqual([old, old])
  const told: string[] = []
  accepted.onChange((key) => told.push(key), signal)
  const heard = () => told.splice(0).sort()
  all.put({ ...old, metadata: { ...old.metadata, resourceVersion: '2' } })
  expect(heard()).toEqual(['b/cam'])
  all.remove(keyOf(old))
  expect(heard()).toEqual(['a/cam', 'b/cam', 'line/cam-8120fe'])
  expect([accepted.list(), accepted.get(keyOf(young))]).toEqual([[young], young])
  all.remove(keyOf(young))
  all.put(configuration('b', '2026-01-04', 'c'))
  // The younger one may have no Instance of that name.
  expect([...accepted.takenNames(all.get(keyOf(old)) ?? old).keys()]).toEqual(['cam-8120fe'])
  expect(accepted.list().map(keyOf).sort()).toEqual(['b/cam', 'line/cam-8120fe'])
  heard()
  all.remove(keyOf(line))
  expect(heard()).toEqual(['b/cam', 'line/cam-8120fe'])
})
