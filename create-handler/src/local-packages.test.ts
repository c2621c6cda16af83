import { createHash } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import path from 'node:path'
import { gzipSync } from 'node:zlib'
import { beforeEach, expect, it } from 'vitest'
import { temporaryDirectory } from '../../test/support/temporary-directory.js'
import { cloneAround, lockOf, readLocalPackages } from './local-packages.js'
import { readPacked } from './tarball.js'

let directory: string

beforeEach(async () => {
  directory = await temporaryDirectory()
})

/** A tarball with the parts of its headers that matter. */
function tarball(files: Readonly<Record<string, string>>): Buffer {
  const blocks = Object.entries(files).flatMap(([name, text]) => {
    const header = Buffer.alloc(512)
    header.write(name)
    header.write(Buffer.byteLength(text).toString(8).padStart(11, '0'), 124)
    const content = Buffer.alloc(Math.ceil(Buffer.byteLength(text) / 512) * 512)
    content.write(text)
    return [header, content]
  })
  return gzipSync(Buffer.concat([...blocks, Buffer.alloc(1024)]))
}

async function pack(file: string, manifest: object): Promise<Buffer> {
  const bytes = tarball({
    'package/dist/index.js': 'x'.repeat(600),
    'package/package.json': JSON.stringify(manifest),
  })
  await writeFile(path.join(directory, file), bytes)
  return bytes
}

const SDK = { name: '@akrijs/sdk', version: '1.0.0', private: true, bin: { a: 'b' } }
const CLI = {
  name: '@akrijs/cli',
  version: '1.0.0',
  dependencies: { '@akrijs/handler-udev': '1.0.0', zod: '4' },
}
const UDEV = { name: '@akrijs/handler-udev', version: '1.0.0' }

const PROJECT = {
  dependencies: { '@akrijs/sdk': '^1.0.0', 'not-there': '1' },
  devDependencies: { '@akrijs/cli': '^1.0.0' },
}

it('are those that a project needs, with what package-lock.json has of them', async () => {
  await pack('cli.tgz', CLI)
  await pack('udev.tgz', UDEV)
  await pack('other.tgz', { name: '@akrijs/proto', version: '1.0.0' })
  await pack('zod.tgz', { name: 'zod', version: '4.0.0' })
  await pack('pino.tgz', { name: 'pino', version: '10.0.0' })
  await writeFile(path.join(directory, 'notes.txt'), '')
  const bytes = await pack('sdk.tgz', SDK)
  const manifest = { name: 'x', version: '0.1.0', ...PROJECT }
  const packages = await readLocalPackages(directory, manifest)
  expect(packages.map(({ name }) => name)).toEqual([CLI.name, SDK.name, UDEV.name, 'zod'])
  const { packages: entries } = JSON.parse(lockOf(manifest, packages))
  expect(entries['']).toEqual(manifest)
  expect(entries['node_modules/@akrijs/sdk']).toEqual({
    version: '1.0.0',
    bin: { a: 'b' },
    resolved: 'file:vendor/sdk.tgz',
    integrity: `sha512-${createHash('sha512').update(bytes).digest('base64')}`,
  })
  expect(entries['node_modules/@akrijs/cli'].dependencies).toEqual(CLI.dependencies)
})

it('are refused if one is missing, twice there, or no package', async () => {
  await pack('cli.tgz', CLI)
  await expect(readLocalPackages(directory, PROJECT)).rejects.toThrow(
    'has no tarball of @akrijs/sdk, @akrijs/handler-udev; run npm pack',
  )
  await pack('cli-old.tgz', CLI)
  await expect(readLocalPackages(directory, PROJECT)).rejects.toThrow(
    '@akrijs/cli twice: cli-old.tgz and cli.tgz',
  )
  await writeFile(path.join(directory, 'a.tgz'), 'no gzip')
  await expect(readLocalPackages(directory, PROJECT)).rejects.toThrow(
    /a\.tgz is no tarball of a package: /,
  )
  await expect(readLocalPackages(path.join(directory, 'none'), PROJECT)).rejects.toThrow(
    'cannot be read',
  )
})

it.each([
  ['an empty one', tarball({}), undefined],
  ['one without the file', tarball({ 'package/x': 'y' }), undefined],
  ['one with the file elsewhere', tarball({ 'other/package.json': '{}' }), undefined],
  ['one that is cut', gzipSync(Buffer.alloc(700, 'x')), undefined],
  ['one with the file', tarball({ 'package/a': '1', 'package/package.json': 'é' }), 'é'],
])('a file is read from %s', (_, bytes, content) => {
  expect(readPacked(bytes, 'package.json')).toBe(content)
})

it('come from the clone, unless npm has installed this package', () => {
  const here = path.join(import.meta.dirname, '..')
  expect(cloneAround(here)).toBe(path.join(here, '..'))
  expect(cloneAround(directory)).toBeUndefined()
})
