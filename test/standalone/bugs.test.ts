import { rm, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { eventually } from '../support/eventually.js'
import { AkriProgram, root } from './support/akri-program.js'

let akri: AkriProgram

beforeEach(async () => {
  akri = await AkriProgram.create()
})

afterEach(() => akri.dispose())

const sdk = pathToFileURL(path.join(root, 'sdk/dist/index.js')).href

/** Lists one device. Throws in a timer, outside of any discovery, while the file is there. */
const handler = (file: string) => `
import { existsSync } from 'node:fs'
import { defineDiscoveryHandler } from ${JSON.stringify(sdk)}
setInterval(() => { if (existsSync(${JSON.stringify(file)})) undefined.poisoned() }, 20).unref()
export default defineDiscoveryHandler({
  name: 'stray',
  shared: true,
  details: { '~standard': { version: 1, vendor: 'test', validate: (value) => ({ value }) } },
  async *discover() { yield [{ id: 'foo0' }] },
})
`
const manifest = {
  name: 'stray-handler',
  version: '1.0.0',
  type: 'module',
  akri: { contract: 1, handlers: [{ name: 'stray' }] },
  exports: './stray.mjs',
}
const configuration = `apiVersion: akri.sh/v0
kind: Configuration
metadata: { name: lab }
spec:
  discoveryHandler: { name: stray }
  brokerSpec:
    brokerPodSpec: { containers: [{ name: b, command: [/bin/sh, -c, 'exec sleep 1000'] }] }
`

it('akri run ends with 1 by a bug outside of objects, and keeps what it had', async () => {
  const poison = path.join(akri.directory, 'poison')
  await akri.write('package.json', JSON.stringify(manifest))
  await akri.write('stray.mjs', handler(poison))
  const file = await akri.write('lab.yaml', configuration)
  const start = () => akri.start('-f', file, '--handler', akri.directory)
  const instance = async () => {
    const [found] = await akri.instances()
    const { metadata: { name, uid } = {}, spec } = found ?? {}
    return { name, uid, usage: Object.values(spec?.deviceUsage ?? {}) }
  }
  const running = { name: 'lab-8120fe', uid: expect.any(String), usage: ['node-a'] }
  start()
  await eventually(async () => expect(await instance()).toEqual(running))
  const before = await instance()

  await writeFile(poison, '')
  expect(await akri.ended()).toBe(1)
  expect(akri.output).toMatch(/TypeError: .*poisoned.*stray\.mjs/s)
  await rm(poison)

  start()
  await eventually(async () => expect(await instance()).toEqual(before))
  expect(akri.output).not.toMatch(/instance (left|deleted)/)
})
