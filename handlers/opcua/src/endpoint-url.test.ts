import { describe, expect, it } from 'vitest'
import { originOf, parseEndpointUrl, readEndpointUrl, shownUrl } from './endpoint-url.js'

describe('URLs of OPC UA servers', () => {
  it.each([
    ['opc.tcp://plc1:4840', { host: 'plc1', port: 4840, hasPort: true, path: '' }],
    ['opc.tcp://plc1:4840/', { host: 'plc1', port: 4840, hasPort: true, path: '/' }],
    [
      'opc.tcp://PLC_1:53530/OPCUA/Server?x',
      { host: 'PLC_1', port: 53530, hasPort: true, path: '/OPCUA/Server?x' },
    ],
    ['opc.tcp://10.0.0.1/ua', { host: '10.0.0.1', port: 4840, hasPort: false, path: '/ua' }],
    ['opc.tcp://[fd00::7]:4841', { host: 'fd00::7', port: 4841, hasPort: true, path: '' }],
    ['opc.tcp://plc1.plant.:4840', { host: 'plc1.plant', port: 4840, hasPort: true, path: '' }],
    ['OPC.TCP://plc1:4840', { host: 'plc1', port: 4840, hasPort: true, path: '' }],
  ])('are read: %s', (text, parts) => {
    expect(parseEndpointUrl(text)).toEqual(parts)
  })

  it.each([
    ['http://plc1:4840/', 'does not begin with opc.tcp://'],
    ['opc.tcp:plc1:4840', 'does not begin with opc.tcp://'],
    ['opc.tcp:///path', 'is not a URL with a host'],
    ['opc.tcp://.:4840', 'is not a URL with a host'],
    ['opc.tcp://:4840', 'is not a URL with a host'],
    ['opc.tcp://plc1:65536/', 'is not a URL with a host'],
    ['opc.tcp://plc1:0/', 'has port 0'],
    ['opc.tcp://[fd00::7:4840', 'is not a URL with a host'],
    ['opc.tcp://operator:secret@plc1:4840', 'contains a user'],
    ['opc.tcp://plc1:4840/a b', 'has characters that a URL cannot have'],
    ['opc.tcp://plc1:4840/\u0000', 'has characters that a URL cannot have'],
    ['opc.tcp://plcü:4840/', 'has characters that a URL cannot have'],
    [`opc.tcp://plc1:4840/${'x'.repeat(600)}`, 'has 620 characters, more than 512'],
    ['', 'has characters that a URL cannot have'],
  ])('are refused with a reason: %s', (text, reason) => {
    expect(() => parseEndpointUrl(text)).toThrow(
      expect.objectContaining({ code: 'AKRI_ERR_OPCUA_URL' }),
    )
    expect(() => parseEndpointUrl(text)).toThrow(reason)
    expect(readEndpointUrl(text)).toBeUndefined()
  })

  it('are shown shortened and without a password', () => {
    expect(shownUrl('opc.tcp://operator:secret@plc1')).toBe('opc.tcp://…@plc1')
    expect(() => parseEndpointUrl('opc.tcp://operator:secret@plc1:4840')).toThrow(
      '"opc.tcp://…@plc1:4840" contains a user',
    )
    for (const password of ['a\nb', '/', 'p@ss', 'x'.repeat(600)])
      expect(shownUrl(`opc.tcp://operator:${password}@plc1`)).toBe('opc.tcp://…@plc1')
    for (const text of ['opc.tcp://plc1', 'operator@plc1', 'a@b//c', '@', '//', ''])
      expect(shownUrl(text)).toBe(text)
    expect(shownUrl(`opc.tcp://${'/'.repeat(1_000_000)}`)).toBe(`opc.tcp://${'/'.repeat(90)}…`)
  })

  it('can be written with another host', () => {
    expect(originOf({ host: 'fd00::7', port: 4841 })).toBe('opc.tcp://[fd00::7]:4841')
    expect(originOf({ host: 'plc1', port: 4840 })).toBe('opc.tcp://plc1:4840')
  })
})
