import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { describe, expect, it } from 'vitest'

const prebuilds = path.join(import.meta.dirname, '../prebuilds')
const addon = path.join(prebuilds, `linux-${process.arch}/uevent.node`)

describe('the socket for device events', () => {
  it('refuses invalid arguments', () => {
    const { stdout } = spawnSync(
      process.execPath,
      [
        '-e',
        `try { require(${JSON.stringify(addon)}).open(1) } catch (error) { ` +
          'console.log(error.message) }',
      ],
      { encoding: 'utf8' },
    )
    expect(stdout).toBe('open(groups, receiveBufferBytes, callback)\n')
  })
})

describe('the prebuilt binaries', () => {
  it.each([
    ['linux-x64', 62],
    ['linux-arm64', 183],
  ])('%s is for its machine and links no library', (target, machine) => {
    const elf = readFileSync(path.join(prebuilds, target, 'uevent.node'))
    expect(elf.subarray(0, 4).toString('latin1')).toBe('\x7fELF')
    expect(elf.readUInt16LE(18)).toBe(machine)
    expect(elf.includes('libc.so')).toBe(false)
  })
})
