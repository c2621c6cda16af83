import { spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { publishedPackages } from '../../scripts/published.mjs'
import { missingRegistry, startRegistry } from '../../scripts/test-registry.mjs'
import { manifestOf, root } from '../../scripts/workspaces.mjs'
import { describeUnless } from '../support/unless.js'

const SOURCE = 'https://github.com/example/akri.js'
const VERSION = manifestOf('.').version
const PACKAGES = publishedPackages()
const entriesOf = ({ name, manifest: { exports = {} } }) =>
  // An entry with sources only is for this repository.
  Object.entries(exports).flatMap(([entry, { default: module }]) =>
    module === undefined ? [] : path.posix.join(name, entry),
  )
const ENTRIES = PACKAGES.flatMap(entriesOf)

const isBuilt = existsSync(path.join(root, 'sdk/dist/index.d.ts'))
const missing = [missingRegistry() ?? [], isBuilt ? [] : 'npm run build'].flat()

describeUnless(missing, 'packages of a registry', () => {
  let directory
  let registry

  beforeAll(async () => {
    directory = mkdtempSync(path.join(os.tmpdir(), 'akri-registry-'))
    registry = await startRegistry(directory)
    const published = publish()
    expect(published).toMatchObject({ status: 0 })
    for (const { name } of PACKAGES) expect(published.stdout).toContain(`+ ${name}@${VERSION}`)
  }, 600_000)

  afterAll(() => {
    registry.close()
    rmSync(directory, { recursive: true, force: true, maxRetries: 3 })
  })

  function run(command, args, cwd) {
    return spawnSync(command, args, { cwd, env: registry.env, encoding: 'utf8' })
  }

  /** Only the workflow has an identity for the provenance. */
  const publish = () =>
    run(process.execPath, ['scripts/publish.mjs', SOURCE, '--no-provenance'], root)

  /** A new project that has installed packages from the registry. */
  function project(type, files, packages = PACKAGES.map(({ name }) => name)) {
    const folder = mkdtempSync(path.join(directory, 'project-'))
    writeFileSync(path.join(folder, 'package.json'), JSON.stringify({ private: true, type }))
    for (const [name, content] of Object.entries(files))
      writeFileSync(path.join(folder, name), content)
    if (packages.length > 0)
      expect(run('npm', ['install', ...packages], folder)).toMatchObject({ status: 0 })
    return folder
  }

  function complaints(folder, ...options) {
    const tsc = path.join(root, 'node_modules/typescript/bin/tsc')
    const types = ['--typeRoots', path.join(root, 'node_modules/@types'), '--types', 'node']
    const strict = ['--strict', '--skipLibCheck', 'false', '--esModuleInterop']
    const all = ['--noEmit', '--target', 'es2023', ...strict, ...types, ...options]
    const { stdout } = run(process.execPath, [tsc, ...all, 'main.ts', 'wrong.ts'], folder)
    return stdout.trim().split('\n')
  }

  it('are left out when they are published again', () => {
    const { status, stdout } = publish()
    expect(status).toBe(0)
    expect(stdout.trim().split('\n')).toEqual(
      PACKAGES.map(({ name }) => `${name}@${VERSION} is published already`),
    )
  })

  it('load as ES modules and by require, each entry, without warnings', () => {
    const use = `console.log(ENTRIES.length, typeof sdk.defineDiscoveryHandler)`
    const entries = JSON.stringify(ENTRIES)
    const folder = project('module', {
      'main.mjs': `const ENTRIES = ${entries}
          for (const entry of ENTRIES) await import(entry)
          import * as sdk from '@akrijs/sdk'
          ${use}`,
      'main.cjs': `const ENTRIES = ${entries}
          for (const entry of ENTRIES) require(entry)
          const sdk = require('@akrijs/sdk')
          ${use}`,
    })
    for (const file of ['main.mjs', 'main.cjs'])
      expect(run(process.execPath, [file], folder)).toMatchObject({
        status: 0,
        stdout: `${ENTRIES.length} function\n`,
        stderr: '',
      })
  })

  it('have types for ES modules, CommonJS and bundlers, also by the older resolution', () => {
    const imports = ENTRIES.map((entry, index) => `import * as e${index} from '${entry}'`)
    const uses = ENTRIES.map((_, index) => `Object.keys(e${index})`)
    const wrong = `import { every } from '@akrijs/sdk'\nexport const n: number = every\n`
    const files = { 'main.ts': `${[...imports, ...uses].join('\n')}\n`, 'wrong.ts': wrong }
    const modes = [
      ['module', 'nodenext', 'nodenext'],
      ['commonjs', 'nodenext', 'nodenext'],
      ['module', 'esnext', 'bundler'],
      ['commonjs', 'commonjs', 'node10'],
    ]
    const folders = { module: project('module', files), commonjs: project('commonjs', files) }
    for (const [type, module, resolution] of modes) {
      const options = ['--module', module, '--moduleResolution', resolution]
      expect([type, ...complaints(folders[type], ...options)]).toEqual([
        type,
        expect.stringMatching(/^wrong\.ts\(2,14\): .* is not assignable to type 'number'/),
      ])
    }
  })

  it('run their programs by npx: installed, and without an installation', () => {
    const folder = project('module', {}, ['@akrijs/cli'])
    const discover = ['discover', 'debugEcho', '--details-text', 'descriptions: [foo0]', '--json']
    const found = run('npx', ['--no-install', '@akrijs/cli', ...discover], folder)
    expect(found).toMatchObject({ status: 0, stdout: expect.stringContaining('foo0') })
    const version = { status: 0, stdout: `${VERSION}\n` }
    expect(run('npx', ['--no-install', 'akri', '--version'], folder)).toMatchObject(version)
    expect(run('npx', ['--no-install', 'akri-handler', '--version'], folder)).toMatchObject(version)
    const empty = mkdtempSync(path.join(directory, 'empty-'))
    expect(run('npx', ['--yes', '@akrijs/cli', '--version'], empty)).toMatchObject(version)
  })
})
