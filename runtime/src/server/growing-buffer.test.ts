import fc from 'fast-check'
import { expect, it } from 'vitest'
import { GrowingBuffer } from './growing-buffer.js'

it('a growing buffer keeps the bytes of any pieces in at most twice their memory', () => {
  fc.assert(
    fc.property(fc.array(fc.uint8Array({ maxLength: 3000 })), fc.nat(5000), (pieces, most) => {
      const buffer = new GrowingBuffer(most)
      for (const piece of pieces) {
        const capacity = buffer.capacityWith(piece.length)
        buffer.append(Buffer.from(piece))
        expect(capacity).toBeGreaterThanOrEqual(buffer.length)
        expect(capacity).toBeLessThanOrEqual(Math.max(2 * buffer.length, 1024))
        if (buffer.length <= most) expect(capacity).toBeLessThanOrEqual(most)
        expect(buffer.capacityWith(0)).toBe(capacity)
      }
      expect(buffer.bytes()).toEqual(Buffer.concat(pieces))
    }),
  )
})

it('a growing buffer takes one byte of memory for a piece of one byte', () => {
  const buffer = new GrowingBuffer(1_000_000)
  const piece = Buffer.from('x')
  let copies = 0
  for (let count = 0, capacity = 0; count < 1_000_000; count++) {
    if (buffer.capacityWith(1) !== capacity) copies++
    capacity = buffer.capacityWith(1)
    buffer.append(piece)
  }
  expect(buffer.bytes().buffer.byteLength).toBe(1_000_000)
  expect(copies).toBeLessThan(20)
})
