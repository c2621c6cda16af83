import { keyOf, objectKey } from '@akrijs/kube/objects'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { ConfigurationNames } from './configuration-names.js'
import { type ConfigurationName, possibleOwner } from './names.js'

const configuration = (
  namespace: string,
  name: string,
  creationTimestamp: string,
  uid: string,
) => ({
  metadata: {
    namespace,
    name: name as ConfigurationName,
    creationTimestamp,
    uid,
    generation: 1,
    resourceVersion: '1',
  },
})
type Named = ReturnType<typeof configuration>

const NAMES = ['cam', 'cam-8120fe', 'cam-a19705', 'cam-8120fe-a19705', 'mic'] as const
const TIMES = ['2026-01-01T00:00:00Z', '2026-01-02T00:00:00Z'] as const
const named = fc.record({
  namespace: fc.constantFrom('a', 'b', 'c'),
  name: fc.constantFrom(...NAMES),
  creationTimestamp: fc.constantFrom(...TIMES),
  uid: fc.stringMatching(/^[0-9a-f]{3}$/),
})
const change = fc.record({ object: named, isDeletion: fc.boolean() })

const ageOf = ({ metadata }: Named) => `${metadata.creationTimestamp} ${metadata.uid}`
const byAge = (a: Named, b: Named) => (ageOf(a) < ageOf(b) ? -1 : 1)

/** The rule, without an index. */
function rivalAmong(all: readonly Named[], one: Named): Named | undefined {
  const owner = possibleOwner(one.metadata.name)
  return all
    .filter(({ metadata: { name } }) => name === one.metadata.name || name === owner)
    .filter((other) => byAge(other, one) < 0 && ageOf(other) !== ageOf(one))
    .sort(byAge)[0]
}

describe('the names of Configurations', () => {
  it('A8 belong to the oldest Configuration that has or could have the name', () => {
    fc.assert(
      fc.property(fc.array(change, { maxLength: 30 }), (changes) => {
        const names = new ConfigurationNames<Named>()
        const present = new Map<string, Named>()
        for (const { object, isDeletion } of changes) {
          const { namespace, name, creationTimestamp, uid } = object
          const key = objectKey(namespace, name)
          const made = configuration(namespace, name, creationTimestamp, `${uid}-${key}`)
          const before = new Map(
            [...present].map(([each, other]) => [each, rivalAmong([...present.values()], other)]),
          )
          if (isDeletion) present.delete(key)
          else present.set(key, made)
          const told = new Set(names.update(key, present.get(key)).map(keyOf))
          for (const [each, other] of present) {
            const rival = rivalAmong([...present.values()], other)
            expect(names.rival(other)).toBe(rival)
            // Each Configuration that has got another rival is named.
            if (each !== key && before.get(each) !== rival) expect(told).toContain(each)
            const taken = [...names.takenNames(other)]
            for (const [takenName, owner] of taken) {
              expect(possibleOwner(takenName)).toBe(other.metadata.name)
              expect(byAge(owner, other)).toBe(-1)
            }
            const older = [...present.values()].filter(
              (third) =>
                possibleOwner(third.metadata.name) === other.metadata.name &&
                byAge(third, other) < 0,
            )
            expect(new Set(taken.map(([takenName]) => takenName))).toEqual(
              new Set(older.map(({ metadata }) => metadata.name)),
            )
          }
        }
      }),
    )
  })

  it('A8 name the others only if a Configuration appears or disappears', () => {
    const names = new ConfigurationNames<Named>()
    const [old, young] = [
      configuration('b', 'cam', TIMES[0], '1'),
      configuration('a', 'cam', TIMES[1], '2'),
    ]
    expect(names.update(keyOf(young), young)).toEqual([])
    expect(names.update(keyOf(old), old)).toEqual([young])
    const edited = { metadata: { ...old.metadata, resourceVersion: '2' } }
    expect(names.update(keyOf(old), edited)).toEqual([])
    expect(names.rival(young)).toBe(edited)
    const recreated = configuration('b', 'cam', TIMES[1], '3')
    expect(names.update(keyOf(old), recreated)).toEqual([young])
    expect(names.rival(young)).toBeUndefined()
    expect(names.update(keyOf(old), undefined)).toEqual([young])
    expect(names.update(keyOf(old), undefined)).toEqual([])
  })
})
