import fc from 'fast-check'
import { expect, it } from 'vitest'
import { costOf } from '../../../test/support/cost.js'
import { readAnnouncement, searchMessage } from './message.js'

const UUID = '5af4a2cc-0b0f-4a26-9d0f-1f2a3b4c5d6e'
const message = (first: string, headers: Readonly<Record<string, string>>) =>
  Buffer.from(
    [first, ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`), '', ''].join(
      '\r\n',
    ),
  )
const OK = 'HTTP/1.1 200 OK'
const NOTIFY = 'NOTIFY * HTTP/1.1'
const USN = `uuid:${UUID.toUpperCase()}::upnp:rootdevice`
const alive = { kind: 'alive', uuid: UUID, target: 'upnp:rootdevice' }

it.each([
  ['an answer', OK, { ST: 'upnp:rootdevice', USN, Location: 'http://192.0.2.7/d.xml' }, alive],
  ['an announcement', NOTIFY, { NTS: 'ssdp:alive', usn: USN, SERVER: 'TV/1' }, alive],
  ['a goodbye', NOTIFY, { NTS: 'ssdp:byebye', USN }, { ...alive, kind: 'byebye' }],
  ['a device', OK, { USN: `uuid:${UUID}` }, { ...alive, target: `uuid:${UUID}` }],
  ['a search', 'M-SEARCH * HTTP/1.1', { ST: 'ssdp:all', USN }, undefined],
  ['an update', NOTIFY, { NTS: 'ssdp:update', USN }, undefined],
  ['another status', 'HTTP/1.1 404 Not Found', { USN }, undefined],
  ['no name', OK, { ST: 'upnp:rootdevice' }, undefined],
  ['a name without a UUID', OK, { USN: 'upnp:rootdevice' }, undefined],
  ['a name with control characters', OK, { USN: `uuid:a\u0007b` }, undefined],
  ['a long message', OK, { USN, X: 'x'.repeat(5000) }, undefined],
])('reads %s', (_, first, headers, wanted) => {
  const read = readAnnouncement(message(first, headers))
  if (wanted === undefined) expect(read).toBeUndefined()
  else expect(read).toMatchObject(wanted)
})

it('reads a message of spaces at once', async () => {
  const spaces = Buffer.from(`${NOTIFY}\r\nA:${' '.repeat(4000)}\nx`)
  expect(await costOf(() => readAnnouncement(spaces))).toBeLessThan(500)
})

it('reads URL and server, and neither with control characters', () => {
  const headers = { USN, LOCATION: 'http://192.0.2.7/d.xml', SERVER: 'TV/1 \u001b[31m' }
  expect(readAnnouncement(message(OK, headers))).toEqual({
    ...alive,
    location: 'http://192.0.2.7/d.xml',
    server: undefined,
  })
})

it('takes any datagram', () => {
  const lines = fc.array(fc.oneof(fc.string(), fc.constantFrom(`USN: ${USN}`, 'NTS: ssdp:alive')))
  fc.assert(
    fc.property(fc.constantFrom(OK, NOTIFY, ''), lines, (first, rest) => {
      const read = readAnnouncement(Buffer.from([first, ...rest].join('\r\n')))
      for (const text of Object.values(read ?? {})) expect(text ?? '').not.toMatch(/\p{Cc}/u)
    }),
  )
})

it('writes a search', () => {
  expect(searchMessage('upnp:rootdevice', 2).toString()).toBe(
    'M-SEARCH * HTTP/1.1\r\nHOST: 239.255.255.250:1900\r\nMAN: "ssdp:discover"\r\nMX: 2\r\n' +
      'ST: upnp:rootdevice\r\n\r\n',
  )
})
