import type { Configuration, ConfigurationName } from '@akrijs/api'
import { keyOf } from '@akrijs/kube/objects'
import { ObjectStore } from '@akrijs/standalone'
import { beforeEach, describe, expect, it } from 'vitest'
import { configurationWith } from '../testing/objects.js'
import { AcceptedConfigurations } from './accepted-configurations.js'

let all: ObjectStore<Configuration>
let accepted: AcceptedConfigurations

beforeEach(() => {
  all = new ObjectStore()
  accepted = new AcceptedConfigurations(all)
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

  it('A8 are replaced by the next of the same name after a deletion, and listeners hear of both', () => {
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
})
