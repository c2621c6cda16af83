import fc from 'fast-check'
import { expect, it } from 'vitest'
import { fuzz } from '../../../test/support/fuzz.js'
import { identificationRequest, readFrame } from './message.js'

const frame = (pdu: readonly number[], { transaction = 7, unit = 3 } = {}) =>
  Buffer.from([0, transaction, 0, 0, 0, pdu.length + 1, unit, ...pdu])
const text = (id: number, value: string | Buffer) => {
  const bytes = Buffer.from(value)
  return [id, bytes.length, ...bytes]
}
const identification = (objects: readonly number[], { count = 1, more = 0, next = 0 } = {}) =>
  frame([0x2b, 0x0e, 2, 0x82, more, next, count, ...objects])
const answerOf = (bytes: Buffer) => readFrame(bytes)?.answer

it('writes a request for the identification of a unit', () => {
  const request = { transaction: 0x0102, unit: 17, level: 2, object: 4 }
  expect([...identificationRequest(request)]).toEqual([1, 2, 0, 0, 0, 5, 17, 0x2b, 0x0e, 2, 4])
})

it('reads an answer with its objects, and keeps the bytes after it', () => {
  const bytes = identification([...text(0, 'ACME'), ...text(5, 'M-1')], { count: 2 })
  expect(readFrame(Buffer.concat([bytes, Buffer.from([1])]))).toEqual({
    transaction: 7,
    unit: 3,
    answer: { objects: { VENDOR_NAME: 'ACME', MODEL_NAME: 'M-1' }, next: undefined },
    rest: Buffer.from([1]),
  })
})

it('waits for all bytes of an answer', () => {
  const bytes = identification(text(0, 'ACME'))
  for (let length = 0; length < bytes.length; length++)
    expect(readFrame(bytes.subarray(0, length))).toBeUndefined()
})

it('reads answers that count the objects of later answers too, as the specification does', () => {
  const bytes = identification(text(0, 'ACME'), { count: 3, more: 0xff, next: 1 })
  expect(answerOf(bytes)).toEqual({ objects: { VENDOR_NAME: 'ACME' }, next: 1 })
})

it('reads an exception', () => {
  expect(answerOf(frame([0xab, 11]))).toEqual({ exception: 11 })
})

it.each([
  ['another function', frame([0x03, 2, 0, 0])],
  ['another type', frame([0x2b, 0x0d, 2, 1, 0, 0, 0])],
  ['no object', identification([])],
  ['an object of no known name', identification(text(0x80, 'private'))],
  ['an object without text', identification(text(0, ' \0'))],
  ['an object with control characters', identification(text(0, 'AC\u001b[31mME'))],
  ['an object with a mark of direction', identification(text(0, 'AC\u202eME'))],
  ['an object that is not UTF-8', identification(text(0, Buffer.from([0x41, 0xff])))],
])('an answer with %s names nothing', (_, bytes) => {
  expect(answerOf(bytes)).toEqual({ objects: {} })
})

it('reads texts that devices pad, and the first of two objects of one id', () => {
  const bytes = identification([...text(0, ' ACME GmbH \0\0'), ...text(0, 'Other')])
  expect(answerOf(bytes)).toMatchObject({ objects: { VENDOR_NAME: 'ACME GmbH' } })
})

it.each([
  ['HTTP', Buffer.from('HTTP/1.1 400 Bad Request\r\n')],
  ['a length of 0', Buffer.from([0, 1, 0, 0, 0, 0, 1])],
  ['a length of 255', Buffer.from([0, 1, 0, 0, 0, 255, 1])],
])('refuses what is not Modbus: %s', (_, bytes) => {
  expect(() => readFrame(bytes)).toThrow('another protocol')
})

const { parameters, timeoutMs } = fuzz({ runs: 2000 })

it('reads any bytes as printable texts, or refuses them', { timeout: timeoutMs }, () => {
  const pdu = fc.array(fc.nat(255), { maxLength: 253 })
  const head = fc.constantFrom([0x2b, 0x0e, 2, 1, 0xff, 3, 200], [0x2b, 0x0e], [0xab], [])
  fc.assert(
    fc.property(head, pdu, fc.boolean(), (first, rest, isFramed) => {
      const bytes = [...first, ...rest].slice(0, 253)
      let read: ReturnType<typeof readFrame>
      try {
        read = readFrame(isFramed ? frame(bytes) : Buffer.from(bytes))
      } catch (error) {
        expect(error).toMatchObject({ message: 'another protocol' })
      }
      if (read === undefined || !('objects' in read.answer)) return
      for (const value of Object.values(read.answer.objects)) {
        expect(value).not.toMatch(/\p{C}/u)
        expect(value.length).toBeLessThan(256)
      }
    }),
    parameters,
  )
})
