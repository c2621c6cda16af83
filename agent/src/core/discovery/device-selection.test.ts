import fc from 'fast-check'
import { expect, it } from 'vitest'
import { DeviceSelection } from './device-selection.js'

const entry = fc.tuple(
  fc.string({ maxLength: 3 }),
  fc.integer({ min: 0, max: 3 }),
  fc.integer({ min: 1, max: 4 }),
)
const entries = fc.uniqueArray(entry, { selector: ([id]) => id, maxLength: 60 })

function select(list: readonly (readonly [string, number, number])[], most: number) {
  const selection = new DeviceSelection<string>(most)
  for (const [id, rank, units] of list) selection.add({ id, rank, units, value: id })
  return { kept: selection.kept(), leftOut: selection.leftOut }
}

it('a selection keeps the first devices by rank, units and id, in whatever order they come', () => {
  fc.assert(
    fc.property(entries, fc.integer({ min: 1, max: 20 }), (list, most) => {
      const inOrder = [...list].sort(
        ([a, x, small], [b, y, large]) => x - y || small - large || (a < b ? -1 : 1),
      )
      let units = 0
      const beyond = inOrder.findIndex(([, , each]) => {
        units += each
        return units > most
      })
      const kept = inOrder.slice(0, beyond < 0 ? undefined : beyond).map(([id]) => id)
      const expected = { kept, leftOut: list.length - kept.length }
      expect(select(list, most)).toEqual(expected)
      expect(select([...list].reverse(), most)).toEqual(expected)
    }),
  )
})

it('a selection never displaces a device by new ids or by a device of its rank', () => {
  const flood = Array.from({ length: 100_000 }, (_, index) => [`0-${index}`, 3, 1] as const)
  const served = ['x', 'y', 'z'].map((id) => [id, 1, 1] as const)
  expect(select([...flood, ...served], 5).kept).toEqual(['x', 'y', 'z', '0-0', '0-1'])
  expect(select([['a', 1, 64], ...served], 5).kept).toEqual(['x', 'y', 'z'])
})
