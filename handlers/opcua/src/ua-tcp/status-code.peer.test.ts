import { StatusCodes } from 'node-opcua'
import { describe, expect, it } from 'vitest'
import { isBad, isUnsupported, statusName } from './status-code.js'

describe('status codes', () => {
  it('have the same names as in node-opcua', () => {
    const codes = Object.values(StatusCodes).filter(({ value }) => isBad(value))
    expect(codes.length).toBeGreaterThan(200)
    const named = codes.filter(({ value }) => !statusName(value).startsWith('0x'))
    expect(named.length).toBeGreaterThan(30)
    for (const { name, value } of named)
      expect(statusName(value)).toBe(`${name} (0x${value.toString(16)})`)
  })

  it('tell an error and an unsupported service, with any flags', () => {
    expect([0, 0x4000_0000, 0x8001_0000, 0xffff_ffff].map(isBad)).toEqual([
      false,
      false,
      true,
      true,
    ])
    expect([0x800b_0000, 0x800b_0400, 0x8040_0000, 0x8001_0000].map(isUnsupported)).toEqual([
      true,
      true,
      true,
      false,
    ])
    expect(statusName(0x1234)).toBe('0x00001234')
  })
})
