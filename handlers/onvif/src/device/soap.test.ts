import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import { systemClock } from '@akrijs/sdk'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { soapEnvelope } from '../testing/device-replies.js'
import { GET_SCOPES } from './device-operations.js'
import { MEDIA_SERVICES, readProfiles } from './media-operations.js'
import { type SoapCall, SoapSession } from './soap.js'

let server: Server
let reply: string

beforeEach(async () => {
  server = createServer((_request, response) => response.end(reply)).listen(0, '127.0.0.1')
  await once(server, 'listening')
})

afterEach(() => server.close())

/** Calls a camera that answers with this content. */
async function call(operation: SoapCall, content: string) {
  reply = soapEnvelope(
    `<${operation.operation}Response>${content}</${operation.operation}Response>`,
  )
  const address = server.address()
  if (typeof address !== 'object' || address === null) return expect.fail('no port')
  const url = new URL(`http://127.0.0.1:${address.port}/`)
  const session = new SoapSession({
    address: '127.0.0.1',
    timeoutMs: 20_000,
    signal: new AbortController().signal,
    clock: systemClock,
  })
  return session.callOpenly({ url, address: '127.0.0.1' }, operation)
}

const items = (count: number) =>
  Array.from(
    { length: count },
    (_, n) => `<tt:SimpleItem Name="Sensitivity${n}" Value="50"/>`,
  ).join('')
const RESOLUTION =
  '<tt:Resolution><tt:Width>1920</tt:Width><tt:Height>1080</tt:Height></tt:Resolution>'
/** A profile of a recorder, with analytics. */
const profile = (n: number) =>
  `<trt:Profiles token="Profile_${n}" fixed="true"><tt:Name>channel ${n}</tt:Name>` +
  `<tt:VideoSourceConfiguration token="s${n}">` +
  '<tt:Bounds x="0" y="0" width="1920" height="1080"/></tt:VideoSourceConfiguration>' +
  `<tt:Encoder>${RESOLUTION}</tt:Encoder>`.repeat(20) +
  `<tt:VideoAnalyticsConfiguration token="a${n}">${items(30)}</tt:VideoAnalyticsConfiguration>` +
  '</trt:Profiles>'
const [media2] = MEDIA_SERVICES
const GET_PROFILES = media2?.getProfiles ?? expect.fail()

const elements = (bytes: number) => '<b></b>'.repeat(bytes / 7)
const attributes = (bytes: number) =>
  `<b ${Array.from({ length: bytes / 12 }, (_, n) => `a${n}=""`).join(' ')}/>`
const MEGABYTE = 1_000_000

describe('the reply of a camera', () => {
  it('may have 180 profiles of a recorder', async () => {
    const response = await call(
      GET_PROFILES,
      Array.from({ length: 180 }, (_, n) => profile(n)).join(''),
    )
    expect(reply.length).toBeGreaterThan(650_000)
    expect(response.all('Profiles')).toHaveLength(180)
    expect(readProfiles(response)[15]).toEqual({ token: 'Profile_15', name: 'channel 15' })
  })

  it.each([
    ['too long', GET_SCOPES, 'x'.repeat(300_000), 'more than 262144'],
    ['of too many elements', GET_SCOPES, elements(200_000), 'more than 4000 elements'],
    ['of too many attributes', GET_SCOPES, attributes(200_000), 'more than 2000 attributes'],
    [
      'of too many elements, also where it may be long',
      GET_PROFILES,
      elements(MEGABYTE),
      'more than 30000 elements',
    ],
    [
      'of too many attributes, also where it may be long',
      GET_PROFILES,
      attributes(MEGABYTE),
      'more than 15000 attributes',
    ],
  ] as const)(
    'is refused before the rest is read: %s',
    async (_what, operation, content, reason) => {
      // A reader of the whole document would find the end tag that is missing.
      const broken = `${content}<broken>`
      await expect(call(operation, broken)).rejects.toMatchObject({
        code: 'AKRI_ERR_ONVIF_XML',
        message: expect.stringContaining(reason),
      })
    },
  )

  it('may have as many elements as the limit', async () => {
    const content = elements(7 * 15_000) + '<b c=""/>'.repeat(14_900)
    expect((await call(GET_PROFILES, content)).children).toHaveLength(29_900)
  })
})
