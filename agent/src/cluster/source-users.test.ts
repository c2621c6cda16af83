import { keyParts, type ObjectKey, objectKey } from '@akrijs/kube/objects'
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { SourceUsers } from './source-users.js'

const BOUNDS = { perAgent: 6, perNamespace: 4 }
const KEYS = ['a', 'b', 'c'].flatMap((namespace) =>
  ['x', 'y', 'z'].map((name) => objectKey(namespace, name)),
)
const OBJECTS = Array.from({ length: 10 }, (_, number) => `o${number}`)
const edit = fc.tuple(
  fc.constantFrom(...KEYS),
  fc.uniqueArray(fc.constantFrom(...OBJECTS), { maxLength: 5 }),
)

it('Configurations use all their objects or none, within the bounds, until they change', () => {
  fc.assert(
    fc.property(fc.array(edit, { maxLength: 30 }), (edits) => {
      const users = new SourceUsers(BOUNDS)
      const used = new Map<ObjectKey, readonly string[]>()
      const count = (keys: readonly ObjectKey[]) =>
        new Set(keys.flatMap((key) => used.get(key) ?? [])).size
      for (const [key, objects] of edits) {
        const { namespace } = keyParts(key)
        used.set(key, objects)
        const ofNamespace = KEYS.filter((each) => keyParts(each).namespace === namespace)
        const isBeyond = count(KEYS) > BOUNDS.perAgent || count(ofNamespace) > BOUNDS.perNamespace
        expect(users.use(key, objects) !== undefined).toBe(isBeyond)
        if (isBeyond) used.delete(key)
        for (const object of OBJECTS) {
          const of = KEYS.filter((each) => used.get(each)?.includes(object) === true)
          expect([...users.usersOf(object)].sort()).toEqual(of)
          expect([...users.namespacesOf(object)].sort()).toEqual(
            [...new Set(of.map((each) => keyParts(each).namespace))].sort(),
          )
          for (const each of KEYS)
            expect(users.isUser(object, each)).toBe(used.get(each)?.includes(object) === true)
        }
        for (const each of KEYS) expect(users.objectsOf(each)).toEqual(used.get(each) ?? [])
      }
    }),
  )
})
