import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { fuzz } from '../../../../test/support/fuzz.js'
import { parseXml } from '../xml.js'
import { cameraText } from './camera-text.js'
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

  it('may have network interfaces: the first with an IPv4 address counts', () => {
    const interfaceOf = (mac: string, ...addresses: [from: string, address: string][]) =>
      `<NetworkInterfaces><Info><HwAddress>${mac}</HwAddress></Info><IPv4><Config>${addresses
        .map(([from, address]) => `<${from}><Address>${address}</Address></${from}>`)
        .join('')}</Config></IPv4></NetworkInterfaces>`
    const read = (...interfaces: string[]) => readNetworkInterfaces(xml(interfaces.join('')))
    expect(
      read(
        interfaceOf('a'),
        interfaceOf('b', ['FromDHCP', '10.0.0.2']),
        interfaceOf('c', ['Manual', '10.0.0.3']),
      ),
    ).toEqual({
      ipAddress: '10.0.0.2',
      macAddress: 'b',
    })
    expect(
      read(interfaceOf('a', ['LinkLocal', '169.254.0.9'], ['Manual', '10.0.0.2'])),
    ).toMatchObject({ ipAddress: '10.0.0.2' })
    expect(
      read(interfaceOf('a', ['Manual', '0.0.0.0']), interfaceOf('b', ['FromDHCP', '10.0.0.2'])),
    ).toEqual({ ipAddress: '10.0.0.2', macAddress: 'b' })
    expect(read(interfaceOf('a', ['Manual', '0.0.0.0'], ['FromDHCP', '10.0.0.2']))).toEqual({
      ipAddress: '10.0.0.2',
      macAddress: 'a',
    })
    expect(read(interfaceOf('a', ['Manual', 'camera.example']))).toEqual({ macAddress: 'a' })
    expect(read(interfaceOf('', ['Manual', '10.0.0.2']))).toEqual({ ipAddress: '10.0.0.2' })
    expect(read()).toEqual({})
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
    const name = fc.constantFrom(
      ...[
        'SystemDateAndTime',
        'UTCDateTime',
        'Date',
        'Time',
        'Year',
        'Hour',
        'NetworkInterfaces',
        'IPv4',
        'Config',
        'Manual',
        'Address',
      ],
      ...[
        'Info',
        'HwAddress',
        'Scopes',
        'ScopeItem',
        'Service',
        'Namespace',
        'XAddr',
        'Capabilities',
        'Media',
        'MediaUri',
        'Uri',
        'Profiles',
      ],
    )
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
          readNetworkInterfaces,
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
