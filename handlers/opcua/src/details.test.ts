import { describe, expect, it } from 'vitest'
import { opcuaDetails } from './details.js'
import { ids, Rounds, standard, start } from './testing/rounds.js'

describe('a discovery URL by which nobody can be asked', () => {
  it('D3 is left out with a warning that says what would be right, and the others are asked', async () => {
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

  it('is refused where there is no other, each with its place', () => {
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

  it('is refused beside others where it is no text at all', () => {
    expect(
      opcuaDetails.safeParse({
        opcuaDiscoveryMethod: { standard: { discoveryUrls: ['opc.tcp://a:1', 4840] } },
      }).success,
    ).toBe(false)
  })
})
