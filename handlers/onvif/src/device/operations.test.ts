import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { fuzz } from '../../../../test/support/fuzz.js'
import { cameraText } from '../xml/camera-text.js'
import { parseXml, type XmlElement } from '../xml/xml.js'
import {
  readCapabilities,
  readInformation,
  readNetworkInterfaces,
  readScopes,
  readServices,
  readTime,
} from './device-operations.js'
import { readProfiles, readUri } from './media-operations.js'

const { parameters, timeoutMs } = fuzz({ runs: 1000 })

const xml = (content: string) => parseXml(`<r>${content}</r>`)

function time(year: string, month: string, day: string, hour = '3', minute = '4', second = '5') {
  const date = `<Date><Year>${year}</Year><Month>${month}</Month><Day>${day}</Day></Date>`
  const clock =
    `<Time><Hour>${hour}</Hour><Minute>${minute}</Minute>` + `<Second>${second}</Second></Time>`
  return readTime(
    xml(`<SystemDateAndTime><UTCDateTime>${clock}${date}</UTCDateTime></SystemDateAndTime>`),
  )
}

describe('the answer of a camera', () => {
  it('may have the time', () => {
    expect(time('2026', '1', '2')).toBe(Date.UTC(2026, 0, 2, 3, 4, 5))
    expect(time('1970', '01', '01', '0', '0', '0')).toBe(0)
    expect([
      time('99', '1', '1'),
      time('2026', '', '1'),
      time('2026', '1', '-1'),
      time('1e3', '1', '1'),
    ]).toEqual(Array(4).fill(undefined))
    expect(readTime(xml('<SystemDateAndTime><LocalDateTime/></SystemDateAndTime>'))).toBeUndefined()
  })

  it('may have the local time only, or a wrong UTC time', () => {
    const part = (name: string, year: number) =>
      `<${name}><Time><Hour>3</Hour><Minute>4</Minute><Second>5</Second></Time>` +
      `<Date><Year>${year}</Year><Month>1</Month><Day>2</Day></Date></${name}>`
    const read = (...parts: string[]) =>
      readTime(xml(`<SystemDateAndTime>${parts.join('')}</SystemDateAndTime>`))
    const local = part('LocalDateTime', 2026)
    expect(read(local)).toBe(Date.UTC(2026, 0, 2, 3, 4, 5))
    expect(read(part('UTCDateTime', 0), local)).toBe(Date.UTC(2026, 0, 2, 3, 4, 5))
    expect(read(part('UTCDateTime', 2025), local)).toBe(Date.UTC(2025, 0, 2, 3, 4, 5))
  })

  describe('to GetNetworkInterfaces', () => {
    const named = (name: string, content: string) => `<${name}>${content}</${name}>`
    const addressFrom = (source: string, address: string) =>
      named(source, named('Address', address))
    const manual = (address: string) => addressFrom('Manual', address)
    const dhcp = (address: string) => addressFrom('FromDHCP', address)
    const on = '<Enabled>true</Enabled>'
    const off = '<Enabled>false</Enabled>'
    /** An interface with this hardware address. */
    const nic = (mac: string, ipv4: string, { enabled = on, ipv4Enabled = on, ipv6 = '' } = {}) =>
      named(
        'NetworkInterfaces',
        enabled +
          named('Info', named('HwAddress', mac)) +
          named('IPv4', ipv4Enabled + named('Config', ipv4)) +
          named('IPv6', named('Config', ipv6)),
      )
    const factory = manual('192.168.1.108')
    const real = nic('b', dhcp('10.0.0.5'))

    it.each<[string, string[], called: string, expected: (string | undefined)[]]>([
      ['the called address', [nic('a', factory), real], '10.0.0.5', ['10.0.0.5', 'b']],
      [
        'the called address, as its second',
        [nic('a', factory), nic('b', manual('192.168.1.108') + dhcp('10.0.0.5'))],
        '10.0.0.5',
        ['10.0.0.5', 'b'],
      ],
      [
        'the called address, although it calls itself disabled',
        [nic('a', factory), nic('b', dhcp('10.0.0.5'), { enabled: off, ipv4Enabled: off })],
        '10.0.0.5',
        ['10.0.0.5', 'b'],
      ],
      [
        'the called address, as has a disabled interface',
        [nic('a', manual('10.0.0.5'), { enabled: off }), real],
        '10.0.0.5',
        ['10.0.0.5', 'b'],
      ],
      [
        'the called address, as has an interface without IPv4',
        [nic('a', manual('10.0.0.5'), { ipv4Enabled: off }), real],
        '10.0.0.5',
        ['10.0.0.5', 'b'],
      ],
      [
        'the called address of IPv6',
        [nic('a', factory), nic('b', dhcp('10.0.0.5'), { ipv6: dhcp('2001:DB8:0::5') })],
        '2001:db8::5',
        ['10.0.0.5', 'b'],
      ],
      [
        'the called link-local address',
        [nic('a', factory), nic('b', '', { ipv6: addressFrom('LinkLocal', 'fe80::5') })],
        'fe80::5%eth0',
        [undefined, 'b'],
      ],
      [
        'no called address, but is the first',
        [nic('a', factory), real],
        '203.0.113.1',
        ['192.168.1.108', 'a'],
      ],
      [
        'no called address, but is enabled',
        [nic('a', factory, { enabled: off }), real],
        'x',
        ['10.0.0.5', 'b'],
      ],
      [
        'no called address, but IPv4',
        [nic('a', factory, { ipv4Enabled: '<Enabled>0</Enabled>' }), real],
        'x',
        ['10.0.0.5', 'b'],
      ],
      [
        'no called address, but another than 0.0.0.0',
        [nic('a', manual('0.0.0.0')), real],
        'x',
        ['10.0.0.5', 'b'],
      ],
      [
        'no called address, but another than 127.0.0.1',
        [nic('', manual('127.0.0.1')), real],
        'x',
        ['10.0.0.5', 'b'],
      ],
      [
        'no called address, but another than that of its link',
        [nic('a', addressFrom('LinkLocal', '169.254.0.9')), real],
        'x',
        ['10.0.0.5', 'b'],
      ],
      [
        'an address of its link alone',
        [nic('a', addressFrom('LinkLocal', '169.254.0.9'))],
        'x',
        ['169.254.0.9', 'a'],
      ],
      [
        'a lease, where DHCP is on',
        [nic('a', `${factory}${dhcp('10.0.0.5')}<DHCP>true</DHCP>`)],
        'x',
        ['10.0.0.5', 'a'],
      ],
      [
        'no lease, where DHCP is on',
        [nic('a', `${factory}<DHCP>true</DHCP>`)],
        'x',
        ['192.168.1.108', 'a'],
      ],
      [
        'an old lease, where DHCP is off',
        [nic('a', `${dhcp('10.0.0.5')}${factory}<DHCP>false</DHCP>`)],
        'x',
        ['192.168.1.108', 'a'],
      ],
      [
        'no address',
        [nic('a', '', { enabled: off }), nic('b', manual('camera'))],
        'x',
        [undefined, 'b'],
      ],
      ['no hardware address', [nic('', factory)], 'x', ['192.168.1.108', undefined]],
      ['nothing', [], 'x', []],
    ])('has the interface in use, which has %s', (_what, interfaces, called, [ip, mac]) => {
      const { ipAddress, macAddress } = readNetworkInterfaces(xml(interfaces.join('')), called)
      expect([ipAddress, macAddress]).toEqual([ip, mac])
    })
  })

  it('is read up to the limits', () => {
    const scopes = readScopes(xml('<Scopes><ScopeItem>onvif://a</ScopeItem></Scopes>'.repeat(500)))
    expect([scopes.length, scopes[0]]).toEqual([128, 'onvif://a'])
    expect(
      readProfiles(xml('<Profiles token="a"><Name>b</Name></Profiles>'.repeat(500))).length,
    ).toBe(16)
    expect(
      readProfiles(
        xml(
          '<Profiles/><Profiles token=""/>' +
            `<Profiles token="${'a'.repeat(300)}"/><Profiles token="a&#10;b"/>`,
        ),
      ),
    ).toEqual([])
  })

  it('becomes one line without control characters, and is cut', () => {
    expect(cameraText('\u001b[31m a\r\n\u2028b\u202e\u200b ')).toBe('[31m a b')
    expect(cameraText('😀'.repeat(300), 2)).toBe('😀😀…')
    expect(cameraText('x'.repeat(10_000_000)).length).toBe(257)
  })

  it('is read without an error, whatever it is', { timeout: timeoutMs }, () => {
    const names =
      'SystemDateAndTime UTCDateTime Date Time Year Hour NetworkInterfaces IPv4 Config Manual ' +
      'Address Info HwAddress Scopes ScopeItem Service Namespace XAddr Capabilities Media ' +
      'MediaUri Uri Profiles'
    const name = fc.constantFrom(...names.split(' '))
    const { element } = fc.letrec<{ element: string }>((tie) => ({
      element: fc.oneof(
        { maxDepth: 4 },
        fc.constantFrom('', '7', 'text', '10.0.0.1', '2026'),
        fc
          .tuple(name, fc.array(tie('element'), { maxLength: 3 }))
          .map(([tag, inner]) => `<${tag} token="t">${inner.join('')}</${tag}>`),
      ),
    }))
    fc.assert(
      fc.property(fc.array(element, { maxLength: 4 }), (elements) => {
        const response = xml(elements.join(''))
        for (const read of [
          readTime,
          readInformation,
          (element: XmlElement) => readNetworkInterfaces(element, '10.0.0.1'),
          readScopes,
          readServices,
          readCapabilities,
          readProfiles,
          readUri,
        ]) {
          read(response)
        }
      }),
      parameters,
    )
  })
})
