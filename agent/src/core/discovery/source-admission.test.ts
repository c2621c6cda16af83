import { keyParts, type ObjectKey, objectKey } from '@akrijs/kube/objects'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type Referrer, SourceAdmission } from './source-admission.js'

const referrer = (key: ObjectKey, age: string, objects: Iterable<string>): Referrer => ({
  key,
  age,
  objects: [...new Set(objects)],
})
const change = (...referrers: readonly Referrer[]) =>
  new Map(referrers.map((each) => [each.key, each]))

const BOUNDS = { perAgent: 6, perNamespace: 4 }
const KEYS = ['a', 'b', 'c'].flatMap((namespace) =>
  ['x', 'y', 'z'].map((name) => objectKey(namespace, name)),
)
const objects = fc.uniqueArray(
  fc.integer({ min: 0, max: 9 }).map((number) => `o${number}`),
  { minLength: 1, maxLength: 5 },
)
const edit = fc.record({
  key: fc.constantFrom(...KEYS),
  age: fc.integer({ min: 0, max: 4 }),
  objects: fc.option(objects, { nil: undefined }),
})

/** The bounds, over the objects of admitted Configurations. */
function fits(referrers: readonly Referrer[], { perAgent, perNamespace } = BOUNDS): boolean {
  const used = (those: readonly Referrer[]) => new Set(those.flatMap((each) => each.objects)).size
  const of = (namespace: string) =>
    referrers.filter(({ key }) => keyParts(key).namespace === namespace)
  return (
    used(referrers) <= perAgent && ['a', 'b', 'c'].every((each) => used(of(each)) <= perNamespace)
  )
}

describe('the Configurations whose objects are watched', () => {
  it('are never beyond a bound, stay admitted until they change, and leave no room unused', () => {
    fc.assert(
      fc.property(fc.array(fc.array(edit, { maxLength: 4 }), { maxLength: 12 }), (batches) => {
        const admission = new SourceAdmission(BOUNDS)
        const present = new Map<ObjectKey, Referrer>()
        const admitted = () =>
          [...present.values()].filter(({ key }) => admission.refusal(key) === undefined)
        for (const batch of batches) {
          const before = admitted()
          const changes = new Map<ObjectKey, Referrer | undefined>()
          for (const { key, age, objects } of batch)
            changes.set(key, objects && referrer(key, `${age} ${key}`, objects))
          for (const [key, value] of changes) {
            if (value === undefined) present.delete(key)
            else present.set(key, value)
          }
          const changed = admission.update(changes)
          expect(fits(admitted())).toBe(true)
          const kept = before.filter((each) => present.get(each.key) === each)
          expect(admitted()).toEqual(expect.arrayContaining(kept))
          for (const { key } of admitted())
            if (!before.some((each) => each.key === key)) expect(changed).toContain(key)
          const late = admission.admitWaiting()
          expect(admission.isDue).toBe(false)
          expect(admitted()).toEqual(expect.arrayContaining(kept))
          expect(late.every((key) => admission.refusal(key) === undefined)).toBe(true)
          expect(fits(admitted())).toBe(true)
          for (const each of present.values())
            if (!admitted().includes(each)) expect(fits([...admitted(), each])).toBe(false)
          for (const object of Array.from({ length: 10 }, (_, number) => `o${number}`)) {
            const users = admitted().filter((each) => each.objects.includes(object))
            expect([...admission.usersOf(object)].sort()).toEqual(
              users.map(({ key }) => key).sort(),
            )
            expect([...admission.namespacesOf(object)].sort()).toEqual(
              [...new Set(users.map(({ key }) => keyParts(key).namespace))].sort(),
            )
          }
        }
      }),
    )
  })

  it('are the oldest ones that fit after the start of an agent, in any order of arrival', () => {
    const all = fc
      .uniqueArray(fc.tuple(fc.constantFrom(...KEYS), objects), { selector: ([key]) => key })
      .map((drafts) => drafts.map(([key, refs], age) => referrer(key, String(age), refs)))
    const shuffled = all.chain((referrers) =>
      fc.tuple(
        fc.constant(referrers),
        fc.shuffledSubarray(referrers, { minLength: referrers.length }),
      ),
    )
    fc.assert(
      fc.property(shuffled, ([byAge, arrived]) => {
        const admission = new SourceAdmission(BOUNDS)
        admission.update(change(...arrived))
        const expected: Referrer[] = []
        for (const each of byAge) if (fits([...expected, each])) expected.push(each)
        expect(byAge.filter(({ key }) => admission.refusal(key) === undefined)).toEqual(expected)
      }),
    )
  })

  it('leave places to other namespaces, and get places that become free by age', () => {
    const admission = new SourceAdmission({ perAgent: 4, perNamespace: 2 })
    const [first, second, third] = ['1', '2', '3'].map((age) =>
      referrer(objectKey('line', age), age, [`a${age}`, `b${age}`]),
    ) as [Referrer, Referrer, Referrer]
    const other = referrer(objectKey('hall', 'x'), '4', ['x', 'y'])
    admission.update(change(third))
    admission.update(change(second))
    admission.update(change(first))
    admission.update(change(other))
    expect(admission.refusal(other.key)).toBeUndefined()
    expect(admission.refusal(third.key)).toBeUndefined()
    expect(admission.refusal(first.key)).toBe('perNamespace')
    const last = referrer(objectKey('guest', 'x'), '5', ['z'])
    admission.update(change(last))
    expect(admission.refusal(last.key)).toBe('perAgent')
    admission.update(new Map([[third.key, undefined]]))
    // A free place waits for the oldest.
    const young = referrer(objectKey('line', 'young'), '6', ['c'])
    admission.update(change(young))
    expect(admission.refusal(young.key)).toBeDefined()
    expect(admission.isDue).toBe(true)
    expect(admission.admitWaiting()).toEqual([first.key])
    expect(admission.refusal(second.key)).toBe('perNamespace')
  })
})
