import fc from 'fast-check'
import { expect, it } from 'vitest'
import { mergePatchOf } from './merge-patch.js'
import { applyMergePatch } from './testing/object-store.js'

const leaf = fc.oneof(fc.string(), fc.integer(), fc.boolean(), fc.array(fc.string()))
const document = fc.dictionary(
  fc.constantFrom('a', 'b', 'toString', '__proto__'),
  fc.oneof(
    leaf,
    fc.dictionary(fc.constantFrom('c', 'd'), fc.oneof(leaf, fc.dictionary(fc.string(), leaf))),
  ),
)

it('makes the one document of the other, and nothing of equal documents', () => {
  fc.assert(
    fc.property(document, document, (before, after) => {
      const patch = mergePatchOf(before, after)
      expect(applyMergePatch(before, patch ?? {})).toEqual(after)
      expect(mergePatchOf(after, after)).toBeUndefined()
    }),
  )
})

it('has only what differs', () => {
  const before = { nodes: { a: { devices: 1, leftOut: 2 }, b: { devices: 1 } }, list: ['x', 'y'] }
  const after = { nodes: { a: { devices: 2 }, b: { devices: 1 } }, list: ['x'], more: undefined }
  expect(mergePatchOf(before, after)).toEqual({
    nodes: { a: { devices: 2, leftOut: null } },
    list: ['x'],
  })
})
