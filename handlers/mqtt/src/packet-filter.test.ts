import { buffer } from 'node:stream/consumers'
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { PacketFilter } from './packet-filter.js'

/** A packet with a type and flags, and so many bytes. */
function packet(first: number, length: number): Buffer {
  const digits = []
  let rest = length
  do {
    digits.push((rest % 128) + (rest >= 128 ? 128 : 0))
    rest = Math.floor(rest / 128)
  } while (rest > 0)
  return Buffer.concat([Buffer.from([first, ...digits]), Buffer.alloc(length, length % 251)])
}

async function filtered(chunks: readonly Buffer[], maxBytes = 300) {
  const filter = new PacketFilter(maxBytes)
  for (const chunk of chunks) filter.write(chunk)
  filter.end()
  return { left: await buffer(filter), leftOut: filter.leftOut }
}

it('passes on packets up to a length, however they come, and counts the others', async () => {
  const lengths = fc.array(fc.constantFrom(0, 1, 127, 128, 300, 301, 16_384, 20_000))
  await fc.assert(
    fc.asyncProperty(lengths, fc.integer({ min: 1, max: 700 }), async (all, chunkBytes) => {
      const stream = Buffer.concat(all.map((length) => packet(0x30, length)))
      const chunks = []
      for (let at = 0; at < stream.length; at += chunkBytes)
        chunks.push(stream.subarray(at, at + chunkBytes))
      const kept = all.filter((length) => length <= 300)
      expect(await filtered(chunks)).toEqual({
        left: Buffer.concat(kept.map((length) => packet(0x30, length))),
        leftOut: all.length - kept.length,
      })
    }),
  )
})

it('leaves out messages that ask for an answer, and no other packets', async () => {
  const answer = packet(0x90, 5)
  const { left } = await filtered([packet(0x32, 10), packet(0x3c, 10), answer, packet(0x31, 7)])
  expect(left).toEqual(Buffer.concat([answer, packet(0x31, 7)]))
})
