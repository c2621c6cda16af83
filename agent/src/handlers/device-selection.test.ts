import fc from 'fast-check'
import { expect, it } from 'vitest'
import { DeviceSelection } from './device-selection.js'

const entry = fc.tuple(fc.string({ maxLength: 3 }), fc.integer({ min: 0, max: 3 }))
const entries = fc.uniqueArray(entry, { selector: ([id]) => id, maxLength: 60 })

function select(list: readonly (readonly [string, number])[], most: number) {
  const selection = new DeviceSelection<string>(most)
  for (const [id, rank] of list) selection.add({ id, rank, value: id })
  return { kept: selection.kept(), leftOut: selection.leftOut }
}

it('a selection keeps the first devices by rank and id, in whatever order they come', () => {
  fc.assert(
    fc.property(entries, fc.integer({ min: 1, max: 20 }), (list, most) => {
      const inOrder = [...list].sort(([a, x], [b, y]) => x - y || (a < b ? -1 : 1))
      const kept = (list.length > most ? inOrder.slice(0, most) : list).map(([id]) => id)
      const leftOut = list.length - kept.length
      expect(select(list, most)).toEqual({ kept, leftOut })
      expect(select(list.toReversed(), most).kept.toSorted()).toEqual(kept.toSorted())
    }),
  )
})
