import { once } from 'node:events'
import { createServer, type RequestListener, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, describe, expect, it } from 'vitest'
import { parseDescription, readDescription } from './description.js'

const DESCRIPTION = `<?xml version="1.0"?>
<root xmlns="urn:schemas-upnp-org:device-1-0">
  <device>
    <deviceType>urn:schemas-upnp-org:device:MediaRenderer:1</deviceType>
    <friendlyName> Hall <![CDATA[& stairs]]> </friendlyName>
    <manufacturer>A\u0007B</manufacturer>
    <modelName>TV 9</modelName><modelName>TV 10</modelName>
    <serialNumber></serialNumber>
    <modelNumber>${'9'.repeat(600)}</modelNumber>
    <deviceList><device><friendlyName>A part</friendlyName></device></deviceList>
  </device>
</root>`
const SWITCHED = 'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n'
const FOUND = {
  deviceType: 'urn:schemas-upnp-org:device:MediaRenderer:1',
  friendlyName: 'Hall & stairs',
  modelName: 'TV 9',
}

describe('a description', () => {
  it('gives the facts of the device, and none of its parts', () => {
    // XML 1.0 has no control characters.
    expect(parseDescription(DESCRIPTION.replace('\u0007', ' '))).toEqual({
      ...FOUND,
      manufacturer: 'A B',
    })
    expect(parseDescription('<root><constructor/><device/></root>')).toEqual({})
  })

  it.each([
    ['<root><device>', /^it is not XML: /],
    [DESCRIPTION, /^it is not XML: /],
    ['not XML', /^it is not XML: /],
    ['<!DOCTYPE r [<!ENTITY a "b">]><root>&a;</root>', /^it is not XML: /],
    ['<a>'.repeat(100), /nested too deeply/],
  ])('is refused: %j', (xml, problem) => {
    expect(() => parseDescription(xml)).toThrow(problem)
  })
})

describe('the description of a device', () => {
  let server: Server | undefined
  const signal = new AbortController().signal

  afterEach(() => {
    server?.closeAllConnections()
    server?.close()
  })

  async function serve(answer: RequestListener): Promise<string> {
    server = createServer(answer).listen(0, '127.0.0.1')
    await once(server, 'listening')
    return `http://127.0.0.1:${(server.address() as AddressInfo).port}/d.xml`
  }

  it('is read from the address that announced the device', async () => {
    const url = await serve((_, response) => response.end(DESCRIPTION.replace('\u0007', '')))
    expect(await readDescription(url, '127.0.0.1', signal)).toMatchObject(FOUND)
    await expect(readDescription(url, '192.0.2.7', signal)).rejects.toThrow(
      'its URL is that of another machine',
    )
  })

  it.each([
    ['file:///etc/passwd', 'does not begin with http://'],
    ['https://127.0.0.1/', 'does not begin with http://'],
    ['http://localhost/d.xml', 'is that of another machine'],
    ['', 'does not begin with http://'],
  ])('is not read from %j', async (url, problem) => {
    await expect(readDescription(url, '127.0.0.1', signal)).rejects.toThrow(problem)
  })

  it.each<[string, RequestListener, RegExp]>([
    ['a redirection', (_, r) => r.writeHead(302, { location: 'http://192.0.2.1/' }).end(), /302/],
    ['a long answer', (_, r) => r.end('x'.repeat(70_000)), /longer than 65536 bytes/],
    ['another protocol', (_, r) => r.socket?.write(SWITCHED), /connection closed/],
    ['a broken connection', (_, r) => r.destroy(), /hang up/],
  ])('is not read after %s', async (_, answer, problem) => {
    const url = await serve(answer)
    await expect(readDescription(url, '127.0.0.1', signal)).rejects.toThrow(problem)
  })
})
