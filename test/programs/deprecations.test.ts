import { spawnSync } from 'node:child_process'
import { mkdtempSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { expect, it } from 'vitest'

const AKRI = path.join(import.meta.dirname, '../../cli/dist/akri.js')
const KUBECONFIG = {
  apiVersion: 'v1',
  kind: 'Config',
  'current-context': 'c',
  contexts: [{ name: 'c', context: { cluster: 'c', user: 'u' } }],
  clusters: [{ name: 'c', cluster: { server: 'https://127.0.0.1:1' } }],
  users: [{ name: 'u', user: { token: 't' } }],
}

it('akri reads a kubeconfig without what Node.js deprecates', () => {
  const flags = ['--pending-deprecation', '--throw-deprecation']
  const file = path.join(mkdtempSync(path.join(os.tmpdir(), 'akri-d-')), 'kubeconfig')
  writeFileSync(file, JSON.stringify(KUBECONFIG))
  const { status, stderr } = spawnSync(
    process.execPath,
    [...flags, AKRI, 'migrate', 'check', '--kubeconfig', file],
    { encoding: 'utf8' },
  )
  expect(stderr).toMatch(/ECONNREFUSED|not reached|127\.0\.0\.1:1/)
  expect(stderr).not.toContain('DEP0')
  expect(status).toBe(1)
})
