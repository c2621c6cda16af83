import { spawnSync } from 'node:child_process'
import path from 'node:path'
import { expect, it } from 'vitest'
import { environmentWith } from './environment.js'

const AKRI = path.join(import.meta.dirname, '../../cli/dist/akri.js')

it('akri reads a kubeconfig without what Node.js deprecates', async () => {
  const flags = ['--pending-deprecation', '--throw-deprecation']
  const { KUBECONFIG = '' } = await environmentWith('https://127.0.0.1:1')
  const { status, stderr } = spawnSync(
    process.execPath,
    [...flags, AKRI, 'migrate', 'check', '--kubeconfig', KUBECONFIG],
    { encoding: 'utf8' },
  )
  expect(stderr).toMatch(/ECONNREFUSED|not reached|127\.0\.0\.1:1/)
  expect(stderr).not.toContain('DEP0')
  expect(status).toBe(1)
})
