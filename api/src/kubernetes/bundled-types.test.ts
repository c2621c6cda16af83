import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { promisify } from 'node:util'
import { describe, expect, it } from 'vitest'
import { BUNDLED_TYPES } from '../generated/bundled-types.js'
import { fieldType } from './kubernetes-types.js'

const home = path.join(import.meta.dirname, '../..')

describe('the bundled types', () => {
  it('are the output of scripts/bundled-types.mjs', async () => {
    const { stdout } = await promisify(execFile)(process.execPath, [
      path.join(home, 'scripts/bundled-types.mjs'),
      '--print',
    ])
    expect(await readFile(path.join(home, 'src/generated/bundled-types.ts'), 'utf8')).toBe(stdout)
  })

  it('are complete: each type that a field names exists', () => {
    for (const fields of Object.values(BUNDLED_TYPES.types)) {
      for (const text of Object.values(fields)) {
        const name = text.replace(/^(\[\]|\{\})*/, '').replace(/!$/, '')
        const type = fieldType(name, BUNDLED_TYPES)
        expect([name, type.kind]).toEqual([name, type.kind === 'object' ? 'object' : 'scalar'])
        if (type.kind === 'scalar') expect(name).toBe(type.scalar)
      }
    }
  })

  it('come from a Kubernetes with resources of a Pod', () => {
    expect(BUNDLED_TYPES.types.V1PodSpec?.resources).toBe('V1ResourceRequirements')
  })
})
