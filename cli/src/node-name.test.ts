import { InvalidOptionError } from '@akrijs/runtime'
import { describe, expect, it } from 'vitest'
import { nodeNameOfHost } from './node-name.js'

describe('the node name of a machine', () => {
  it.each([
    ['node-a', 'node-a'],
    ['Lab-3.Example.COM', 'lab-3.example.com'],
    ['my_host', 'my-host'],
    ['_Bad Host!.', 'bad-host'],
    ['a..b-.-c', 'a.b.c'],
    ['x'.repeat(300), 'x'.repeat(253)],
  ])('comes from the host name %s', (hostname, name) => {
    expect(nodeNameOfHost(hostname)).toBe(name)
  })

  it('has to be given if the host name has no valid character', () => {
    for (const hostname of ['', '___', '日本']) {
      expect(() => nodeNameOfHost(hostname)).toThrow(InvalidOptionError)
      expect(() => nodeNameOfHost(hostname)).toThrow('choose a name with --node')
    }
  })
})
