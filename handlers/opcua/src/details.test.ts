import { describe, expect, it } from 'vitest'
import { detailsWarnings, opcuaDetails } from './details.js'
import { ids, Rounds, standard, start } from './testing/rounds.js'

describe('an unusable discovery URL', () => {
  it('D3 is ignored with a warning that has the right form; others are called', async () => {
    const plc = await start()
    const rounds = new Rounds(
      standard(['opc.tcp://plc1/', 'http://plc2:4840', plc.url, 'opc.tcp://anna:geheim@plc3:4840']),
    )
    expect(ids(await rounds.first())).toEqual([plc.url])
    await rounds.next()
    const warnings = rounds.logged.filter(({ level }) => level === 'warn')
    expect(warnings.map(({ fields }) => [fields.discoveryUrl, fields.problem])).toEqual([
      ['opc.tcp://plc1/', 'the port is missing; write it out, as in opc.tcp://host:4840/'],
      [
        'http://plc2:4840',
        expect.stringContaining('does not begin with opc.tcp://; write opc.tcp://host:port/path'),
      ],
      ['opc.tcp://…@plc3:4840', expect.stringContaining('contains a user')],
    ])
    expect(JSON.stringify(rounds.logged)).not.toContain('geheim')
  })

  it('is refused without a usable URL, at its path', () => {
    const { error } = opcuaDetails.safeParse(standard(['opc.tcp://plc1/', 'http://plc2:4840']))
    expect(error?.issues.map(({ path, message }) => [path.join('.'), message])).toEqual([
      [
        'opcuaDiscoveryMethod.standard.discoveryUrls.0',
        expect.stringContaining('the port is missing'),
      ],
      [
        'opcuaDiscoveryMethod.standard.discoveryUrls.1',
        expect.stringContaining('does not begin with opc.tcp://'),
      ],
    ])
  })

  it('is refused beside other URLs if it is not a text', () => {
    expect(
      opcuaDetails.safeParse({
        opcuaDiscoveryMethod: { standard: { discoveryUrls: ['opc.tcp://a:1', 4840] } },
      }).success,
    ).toBe(false)
  })
})

describe('details of an OPC UA Configuration', () => {
  const urls = Array<string>(1001).fill('opc.tcp://a:1')
  const networks = Array<string>(1001).fill('10.0.0.0/8')
  const items = Array<string>(10_001).fill('PLC')

  it.each<[string, object, string]>([
    ['no method', {}, 'opcuaDiscoveryMethod'],
    ['an empty method', { opcuaDiscoveryMethod: {} }, 'opcuaDiscoveryMethod'],
    ['two methods', { opcuaDiscoveryMethod: { standard: {}, mdns: {} } }, 'opcuaDiscoveryMethod'],
    ['an unknown method', { opcuaDiscoveryMethod: { mdns: {}, ldap: {} } }, 'opcuaDiscoveryMethod'],
    [
      'an unknown field of standard',
      { opcuaDiscoveryMethod: { standard: { urls: [] } } },
      'opcuaDiscoveryMethod.standard',
    ],
    [
      'an unknown field of mdns',
      { opcuaDiscoveryMethod: { mdns: { interface: 'eth0' } } },
      'opcuaDiscoveryMethod.mdns',
    ],
    ['too many URLs', standard(urls), 'opcuaDiscoveryMethod.standard.discoveryUrls'],
    ['an unknown field', standard([], { applicationName: 'PLC' }), ''],
    ['too many names', standard([], { applicationNames: { items } }), 'applicationNames.items'],
    ['a wrong network', standard([], { allowedNetworks: ['10.0.0.0/33'] }), 'allowedNetworks.0'],
    ['too many networks', standard([], { allowedNetworks: networks }), 'allowedNetworks'],
    ...['serverDetails', 'allowUnencryptedPasswords', 'trustAnyServer'].map(
      (option): [string, object, string] => [
        `a text for ${option}`,
        standard([], { [option]: 'true' }),
        option,
      ],
    ),
  ])('W1 are refused with %s, at its path', (_name, details, path) => {
    const { error } = opcuaDetails.safeParse(details)
    expect(error?.issues.map((issue) => issue.path.join('.'))).toEqual([path])
  })
})

it('valid details have a warning for each ignored URL, and a filter that nothing passes', () => {
  const pathsOf = (details: object) =>
    detailsWarnings(opcuaDetails.parse(details)).map(({ path }) => path)
  const urls = ['opc.tcp://a:1', 'opc.tcp://a', 'b']
  expect(pathsOf(standard(urls, { applicationNames: { items: [] } }))).toEqual([
    'opcuaDiscoveryMethod.standard.discoveryUrls[1]',
    'opcuaDiscoveryMethod.standard.discoveryUrls[2]',
    'applicationNames',
  ])
  const applicationNames = { items: [], action: 'Exclude' }
  expect(pathsOf({ opcuaDiscoveryMethod: { mdns: {} }, applicationNames })).toEqual([])
})
