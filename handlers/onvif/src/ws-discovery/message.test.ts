import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { costOf } from '../../../../test/support/cost.js'
import { fuzz } from '../../../../test/support/fuzz.js'
import { OnvifMessageError } from '../errors.js'
import {
  type AnnouncementText,
  encodeBye,
  encodeHello,
  encodeProbeMatches,
  encodeResolveMatches,
} from '../testing/device-messages.js'
import { parseXml, type XmlElement } from '../xml/xml.js'
import {
  decodeMessage,
  encodeProbe,
  encodeResolve,
  isOnvifDevice,
  PROBED_TYPES,
} from './message.js'

const { parameters, timeoutMs } = fuzz({ runs: 2000 })

const ID = '1f485329-2771-43bc-88de-df8f2faa3bb7'
const ONVIF_NETWORK = 'http://www.onvif.org/ver10/network/wsdl'
const ONVIF_DEVICE = 'http://www.onvif.org/ver10/device/wsdl'

const decode = (text: string) => decodeMessage(Buffer.from(text))

/** An answer in the form of a device. */
function answer(
  match: string,
  { header = `<RelatesTo>uuid:${ID}</RelatesTo>`, root = '' } = {},
): string {
  return (
    `<Envelope ${root}><Header>${header}</Header>` +
    `<Body><ProbeMatches>${match}</ProbeMatches></Body></Envelope>`
  )
}

const match = (content: string, address = 'urn:uuid:CAMERA-1') =>
  `<ProbeMatch><EndpointReference><Address>${address}</Address></EndpointReference>` +
  `${content}</ProbeMatch>`

function matchesOf(text: string) {
  const message = decode(text)
  return message.kind === 'ProbeMatches'
    ? message.matches
    : expect.fail(`it is a message of kind ${message.kind}`)
}

describe('messages of WS-Discovery', () => {
  it('D2 declare every prefix that a Probe uses, in names and in types', () => {
    for (const type of PROBED_TYPES) {
      const text = encodeProbe(ID, type).toString()
      const used = [...text.matchAll(/<\/?([a-z]+):|>([a-z]+):[A-Z]/g)].map(
        ([, element, word]) => element ?? word,
      )
      expect(used.filter((prefix) => !text.includes(` xmlns:${prefix}="http://`))).toEqual([])
      const types = parseXml(text).find('Body', 'Probe', 'Types')
      expect(types?.qualifiedName(types.text)).toEqual(
        type === 'tds:Device'
          ? { namespace: ONVIF_DEVICE, local: 'Device' }
          : { namespace: ONVIF_NETWORK, local: 'NetworkVideoTransmitter' },
      )
    }
  })

  it('have no attributes in the header of a Probe, because some devices ignore such Probes', () => {
    const countAttributes = ({ attributes, children }: XmlElement): number =>
      attributes.size + children.reduce((sum, child) => sum + countAttributes(child), 0)
    expect(countAttributes(parseXml(encodeProbe(ID, 'tds:Device')))).toBe(0)
  })

  it('survive encoding and decoding', () => {
    const texts = fc.string({
      unit: fc.constantFrom(...'abcxyz019-._~:/?&=<>"\''),
      minLength: 1,
      maxLength: 40,
    })
    const announcement: fc.Arbitrary<AnnouncementText> = fc.record({
      uuid: fc.uuid(),
      types: fc.subarray(['dn:NetworkVideoTransmitter', 'tds:Device']),
      scopes: fc.array(texts, { maxLength: 5 }),
      xAddrs: fc.array(texts, { maxLength: 5 }),
      metadataVersion: fc.nat(),
    })
    fc.assert(
      fc.property(
        fc.array(announcement, { minLength: 1, maxLength: 4 }),
        fc.uuid(),
        (announcements, relatesTo) => {
          const read = announcements.map(({ types, ...rest }) => ({
            ...rest,
            endpoint: `urn:uuid:${rest.uuid}`,
            types: types.map((type) => ({
              namespace: type === 'tds:Device' ? ONVIF_DEVICE : ONVIF_NETWORK,
              local: type.split(':')[1],
            })),
          }))
          expect(
            decodeMessage(encodeProbeMatches(ID, `urn:uuid:${relatesTo}`, announcements)),
          ).toEqual({
            kind: 'ProbeMatches',
            relatesTo,
            matches: read,
          })
          for (const [index, one] of announcements.entries()) {
            expect(decodeMessage(encodeHello(ID, one))).toEqual({
              kind: 'Hello',
              announcement: read[index],
            })
            expect(decodeMessage(encodeResolveMatches(ID, ID, one))).toEqual({
              kind: 'ResolveMatches',
              relatesTo: ID,
              matches: [read[index]],
            })
            expect(decodeMessage(encodeBye(ID, one.uuid))).toMatchObject({
              kind: 'Bye',
              announcement: { uuid: one.uuid },
            })
          }
        },
      ),
    )
  })

  it('ask for the URLs of a device by its address as the device wrote it', () => {
    const endpoint = 'URN:uuid:Camera-<1>'
    const text = encodeResolve(ID, endpoint).toString()
    const path = ['Body', 'Resolve', 'EndpointReference', 'Address'] as const
    expect(parseXml(text).textOf(...path)).toBe(endpoint)
    expect(decode(text)).toEqual({
      kind: 'Resolve',
      messageId: `urn:uuid:${ID}`,
      uuid: 'camera-<1>',
    })
    expect(matchesOf(answer(match('', endpoint.replace(/[<>]/g, ''))))[0]).toMatchObject({
      uuid: 'camera-1',
      endpoint: 'URN:uuid:Camera-1',
    })
  })

  it.each([
    ['zeros after it', (text: string) => `${text}\0\0\0`],
    ['a zero and a line break after it', (text: string) => `${text}\0\r\n`],
    ['white space before it', (text: string) => `\r\n \t<?xml version="1.0"?>${text}`],
  ])('may have %s', (_what, around) => {
    expect(matchesOf(around(answer(match(''))))).toHaveLength(1)
  })

  it('are decoded with any prefixes, and with any spelling of the UUID', () => {
    const spelt = ['urn:uuid:CAMERA-1', 'uuid:camera-1', 'Camera-1', ' urn:UUID:camera-1\n']
    for (const address of spelt)
      expect(matchesOf(answer(match('', address)))).toMatchObject([{ uuid: 'camera-1' }])
    const prefixed = `<env:Envelope xmlns:env="urn:e" xmlns:wsa="urn:a" xmlns:wsd="urn:d">
      <env:Header><wsa:RelatesTo>${ID}</wsa:RelatesTo></env:Header>
      <env:Body><wsd:ProbeMatches><wsd:ProbeMatch>
      <wsa:EndpointReference><wsa:Address>urn:uuid:1</wsa:Address></wsa:EndpointReference>
      <wsd:XAddrs>
        http://10.0.0.1/a	http://[fd00::1]/b
      </wsd:XAddrs></wsd:ProbeMatch></wsd:ProbeMatches></env:Body></env:Envelope>`
    expect(decode(prefixed)).toMatchObject({
      relatesTo: ID,
      matches: [{ uuid: '1', xAddrs: ['http://10.0.0.1/a', 'http://[fd00::1]/b'] }],
    })
  })

  it('lose matches without an endpoint reference and invalid URLs, and keep the others', () => {
    const xAddrs = `<XAddrs>http://a/ http://${'x'.repeat(2000)}/ http://b/\u00e9 http://c/</XAddrs>`
    expect(matchesOf(answer(`<ProbeMatch/>${match(xAddrs)}${match('', 'two words')}`))).toEqual([
      expect.objectContaining({ uuid: 'camera-1', xAddrs: ['http://a/', 'http://c/'] }),
    ])
  })

  it.each([
    ['7', 7],
    ['now', undefined],
  ])('have a version of the metadata only if it is a number: %s', (text, metadataVersion) => {
    const version = `<MetadataVersion>${text}</MetadataVersion>`
    expect(matchesOf(answer(match(version)))).toMatchObject([{ metadataVersion }])
  })

  it('are decoded up to the limits', () => {
    const many = (name: string) =>
      `<${name}>${Array.from({ length: 300 }, (_, n) => `http://a/${n}`).join(' ')}</${name}>`
    const [first] = matchesOf(answer(match(many('XAddrs') + many('Scopes') + many('Types'))))
    expect([first?.xAddrs.length, first?.scopes.length, first?.types.length]).toEqual([8, 256, 32])
    expect(matchesOf(answer(match('').repeat(100)))).toHaveLength(64)
  })

  it.each([
    ['nothing', '', /not XML/],
    ['text without XML', 'M-SEARCH * HTTP/1.1', /not XML/],
    ['half a message', answer(match('')).slice(0, 80), /not XML/],
    ['an answer without RelatesTo', answer(match(''), { header: '' }), /RelatesTo/],
    ['an answer without a device', answer(''), /ProbeMatches is empty/],
    ['an answer without a reference', answer('<ProbeMatch/>'), /no usable endpoint reference/],
    ['a Hello without a reference', '<Envelope><Body><Hello/></Body></Envelope>', /reference/],
    ['a Probe without an id', '<Envelope><Body><Probe/></Body></Envelope>', /MessageID/],
    ['entities', `<!DOCTYPE x [<!ENTITY e "x">]>${answer(match('&e;'))}`, /document type/],
    ['endless elements', answer('<a>'.repeat(5000)), /elements/],
    ['over 16 KiB', answer(match(`<Scopes>${'x'.repeat(16_384)}</Scopes>`)), /more than 16384/],
  ])('D2 are refused with a reason when they are %s', (_what, text, reason) => {
    const refused = () => decode(text)
    expect(refused).toThrow(OnvifMessageError)
    expect(refused).toThrow(reason)
  })

  const full = (part: (n: number) => string) => {
    let content = ''
    for (let n = 0; content.length < 15_900; n++) content += part(n)
    return answer(match(content))
  }

  it.each([
    ['elements', full(() => '<a/>')],
    ['attributes', `<a ${full((n) => `a${n}="" `)}/>`],
    ['elements up to the limit', answer(match('<a></a>'.repeat(1450)))],
    ['attributes up to the limit', answer(match(`<a xmlns:b=""/>`.repeat(490)))],
    ['matches', answer(match('<Types>a:b c:d</Types><Scopes>e f</Scopes>').repeat(100))],
    ['words', full((n) => `a${n} `)],
  ])('cost little when they are full of %s', async (_what, text) => {
    const bytes = Buffer.from(text)
    expect(bytes.length).toBeLessThan(16_700)
    const read = () => {
      for (let n = 0; n < 50; n++) {
        try {
          decodeMessage(bytes)
        } catch (error) {
          expect(error).toBeInstanceOf(OnvifMessageError)
        }
      }
    }
    // A message takes five at most.
    expect(await costOf(read)).toBeLessThan(50 * 15)
  })

  it('of other kinds have a name or words for people', () => {
    const decoded = (body: string) => decode(`<Envelope><Body>${body}</Body></Envelope>`)
    expect(decoded('<GetMetadata/>')).toEqual({ kind: 'other', name: 'GetMetadata' })
    expect(decode('<Envelope/>')).toEqual({ kind: 'other', name: 'nothing' })
    expect(decoded('<Fault><Code><Value>s:Sender</Value></Code></Fault>')).toEqual({
      kind: 'Fault',
      words: 'Sender',
    })
    expect(decoded('<Fault><faultstring>no\nway</faultstring></Fault>')).toEqual({
      kind: 'Fault',
      words: 'a fault: no way',
    })
  })

  it('D2 never make the decoder throw another error than its own', {
    timeout: timeoutMs,
  }, () => {
    const good = encodeProbeMatches(ID, ID, [
      {
        uuid: ID,
        types: ['tds:Device'],
        scopes: ['onvif://a'],
        xAddrs: ['http://a/'],
        metadataVersion: 1,
      },
    ])
    const broken = fc
      .tuple(fc.nat(good.length), fc.nat(60), fc.uint8Array({ maxLength: 20 }))
      .map(([at, length, bytes]) =>
        Buffer.concat([good.subarray(0, at), bytes, good.subarray(at + length)]),
      )
    fc.assert(
      fc.property(fc.oneof(fc.uint8Array({ maxLength: 500 }), broken), (bytes) => {
        try {
          decodeMessage(bytes)
        } catch (error) {
          if (!(error instanceof OnvifMessageError)) throw error
        }
      }),
      parameters,
    )
  })
})

describe('an ONVIF device', () => {
  const isDevice = (content: string, root = '') =>
    matchesOf(answer(match(content), { root })).map(isOnvifDevice)[0]

  it.each([
    [
      'a NetworkVideoTransmitter',
      `<Types xmlns:dn="${ONVIF_NETWORK}">dn:NetworkVideoTransmitter</Types>`,
      true,
    ],
    ['a type with an undeclared prefix', '<Types>dn:NetworkVideoTransmitter</Types>', true],
    ['a Device of ONVIF', `<Types xmlns:x="${ONVIF_DEVICE}">x:Device</Types>`, true],
    ['a Device with an undeclared prefix', '<Types>tds:Device</Types>', true],
    ['an ONVIF scope without a type', '<Scopes>onvif://www.onvif.org/type/ptz</Scopes>', true],
    [
      'a computer that answers any Probe',
      '<Types xmlns:wsdp="http://schemas.xmlsoap.org/ws/2006/02/devprof" xmlns:pub="http://schemas.microsoft.com/windows/pub/2005/07">wsdp:Device pub:Computer</Types>',
      false,
    ],
    ['an announcement without types and scopes', '', false],
  ])('is or is not %s', (_what, content, wanted) => {
    expect(isDevice(content)).toBe(wanted)
  })
})
