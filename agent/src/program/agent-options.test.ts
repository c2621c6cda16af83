import { describe, expect, it } from 'vitest'
import { programOptions as parsed } from '../testing/program-options.js'
import { slotGraceMs } from './agent-options.js'

describe('the options of the agent', () => {
  it('R92 keep a slot without a container for 20 s, and for 5 min with a container runtime', () => {
    expect(slotGraceMs(parsed())).toBe(20_000)
    expect(slotGraceMs(parsed('--cri-socket', '/run/containerd/containerd.sock'))).toBe(300_000)
    expect(
      slotGraceMs(parsed('--cri-socket', '/run/containerd/containerd.sock', '--slot-grace', '60')),
    ).toBe(60_000)
    expect(slotGraceMs(parsed('--slot-grace', '60'))).toBe(60_000)
    expect(() => parsed('--slot-grace', '0')).toThrow('slot-grace')
  })

  it('take rules of what handlers may give to containers, and say how a rule is written', () => {
    expect(parsed('--handler-mounts', 'a=/x:rw,b=/y').handlerMounts).toEqual(['a=/x:rw', 'b=/y'])
    expect(parsed('--handler-devices', 'a=/dev/tty*').handlerDevices).toEqual(['a=/dev/tty*'])
    expect(parsed('--handler-environment', 'a=B_*').handlerEnvironment).toEqual(['a=B_*'])
    for (const wrong of ['/x', 'a=x', 'a=/x/../y', 'a=/x:rwm'])
      expect(() => parsed('--handler-mounts', wrong)).toThrow(/write HANDLER=\/path/)
    expect(() => parsed('--handler-devices', 'a=/x:ro')).toThrow(/write HANDLER=\/dev\/name/)
    expect(parsed('--handler-addresses', '10.1.0.0/16,::1').handlerAddresses).toHaveLength(2)
    expect(() => parsed('--handler-addresses', 'a.b')).toThrow(/write an address or a network/)
    expect(() => parsed('--handler-environment', 'a')).toThrow(/write HANDLER=NAME/)
  })

  it('refuse what is no name of a node: its claims would look like others', () => {
    expect(parsed('--node', 'node-b.lab').node).toBe('node-b.lab')
    for (const name of ['', 'C:1:x', 'a b', 'Bad_Node!'])
      expect(() => parsed('--node', name)).toThrow(/--node <name>.*write a DNS name/)
    expect(() => parsed('--state-directory', '')).toThrow('write the path of a directory')
  })
})
