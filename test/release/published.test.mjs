import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { checkPackage, createPackageFromTarballData } from '@arethetypeswrong/core'
import { publint } from 'publint'
import { formatMessage } from 'publint/utils'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import {
  publishedManifest,
  publishedPackages,
  publishedPage,
  stagePackages,
} from '../../scripts/published.mjs'
import { manifestOf, root } from '../../scripts/workspaces.mjs'
import { describeUnless } from '../support/unless.js'

const SOURCE = 'https://github.com/example/akri.js'
const PACKAGES = publishedPackages()
const NAMES = PACKAGES.map(({ name }) => name)
const isBuilt = PACKAGES.every(({ folder, manifest: { exports = {} } }) =>
  Object.values(exports).every(({ types = '' }) => existsSync(path.join(root, folder, types))),
)

describe('a published package', () => {
  it.each(PACKAGES)('$name says what it is, and how to start', ({ name, folder, manifest }) => {
    const { description, keywords, license, type, engines } = manifest
    expect({ license, type, engines }).toEqual({
      license: 'Apache-2.0',
      type: 'module',
      engines: manifestOf('.').engines,
    })
    expect(description.length).toBeGreaterThan(20)
    expect(keywords).toEqual(expect.arrayContaining(['akri', 'kubernetes']))
    const readme = readFileSync(path.join(root, folder, 'README.md'), 'utf8')
    expect(readme.split('\n', 1)).toEqual([`# ${name}`])
    expect(readme).toMatch(/^(npm (install|create) .*|npx )@akrijs\//m)
    expect(readme).toMatch(/^```(js|ts|yaml)$|^npx @akrijs\//m)
  })

  it.each(PACKAGES)('$name is not published with its sources', ({ folder, manifest }) => {
    const { scripts } = manifest
    expect(Object.keys(scripts)).toEqual(['prepublishOnly'])
    const { status, stderr } = spawnSync('npm', ['run', 'prepublishOnly'], {
      cwd: path.join(root, folder),
      encoding: 'utf8',
    })
    expect(status).toBe(1)
    expect(stderr).toContain('Run node scripts/publish.mjs')
  })
})

describe('the manifest that npm publishes', () => {
  const manifest = {
    name: '@akrijs/example',
    version: '1.2.3',
    exports: {
      '.': { 'akri-source': './src/index.ts', types: './dist/a.d.ts', default: './dist/a.js' },
      './b': { 'akri-source': './src/b.ts', types: './dist/b.d.ts', default: './dist/b.js' },
    },
    scripts: { prepublishOnly: 'exit 1' },
    devDependencies: { zod: '1.0.0' },
  }

  it('has no sources, scripts or packages of the development, and names the repository', () => {
    expect(publishedManifest(manifest, 'handlers/example', SOURCE)).toEqual({
      name: '@akrijs/example',
      version: '1.2.3',
      main: './dist/a.js',
      types: './dist/a.d.ts',
      exports: {
        '.': { types: './dist/a.d.ts', default: './dist/a.js' },
        './b': { types: './dist/b.d.ts', default: './dist/b.js' },
      },
      typesVersions: { '*': { b: ['./dist/b.d.ts'] } },
      repository: { type: 'git', url: `git+${SOURCE}.git`, directory: 'handlers/example' },
      homepage: `${SOURCE}/tree/v1.2.3/handlers/example#readme`,
      bugs: `${SOURCE}/issues`,
      publishConfig: { access: 'public', provenance: true },
    })
  })

  it.each(['', 'github.com/example/akri.js', `${SOURCE}.git`, `${SOURCE}/`, 'https://a.b/c d'])(
    'refuses %j as the repository',
    (source) => {
      expect(() => publishedManifest(manifest, 'sdk', source)).toThrow('is not an address')
    },
  )
})

describe('a page that npm publishes', () => {
  const published = {
    folder: 'handlers/example',
    files: ['README.md', 'LICENSE', 'dist/index.js'],
    source: SOURCE,
    version: '1.2.3',
  }
  const repository = `${SOURCE}/blob/v1.2.3`

  it.each([
    ['[a](../../docs/a.md)', `[a](${repository}/docs/a.md)`],
    ['[a](../../docs/a.md#b)', `[a](${repository}/docs/a.md#b)`],
    [
      '[a](src/a.ts) [b](./src/b.ts)',
      `[a](${repository}/handlers/example/src/a.ts) [b](${repository}/handlers/example/src/b.ts)`,
    ],
    ['![a](picture.svg)', `![a](${repository}/handlers/example/picture.svg)`],
  ])('names the repository in %s', (text, expected) => {
    expect(publishedPage(text, published)).toBe(expected)
  })

  it.each([
    '[a](LICENSE)',
    '[a](./dist/index.js)',
    '[a](#limits)',
    '[a](https://docs.akri.sh/a)',
    '[a](mailto:a@example.org)',
    '```js\nhandlers[0](input)\n```\n',
    'a (src/a.ts)',
  ])('keeps %j', (text) => {
    expect(publishedPage(text, published)).toBe(text)
  })
})

describeUnless(isBuilt ? [] : ['npm run build'], 'what npm publishes', () => {
  let directory
  let staged

  beforeAll(() => {
    directory = mkdtempSync(path.join(os.tmpdir(), 'akri-published-'))
    staged = stagePackages(directory, SOURCE)
  })
  afterAll(() => rmSync(directory, { recursive: true, force: true }))

  const stagedOf = (name) => staged.find((one) => one.name === name).directory
  const manifestIn = (folder) => JSON.parse(readFileSync(path.join(folder, 'package.json'), 'utf8'))

  /** The texts of the files below a folder whose names match. */
  const filesIn = (folder, pattern) =>
    readdirSync(folder, { recursive: true })
      .filter((file) => pattern.test(file))
      .map((file) => readFileSync(path.join(folder, file), 'utf8'))

  async function publintMessages(folder) {
    const { messages } = await publint({ pkgDir: folder, strict: true, pack: 'npm' })
    return messages.map((message) => formatMessage(message, manifestIn(folder), { color: false }))
  }

  /** CommonJS loads these modules by `require`: Node.js 20.19 and newer can. */
  async function typeProblems(folder) {
    const [{ filename }] = JSON.parse(
      execFileSync('npm', ['pack', '--json', '--pack-destination', directory], {
        cwd: folder,
        encoding: 'utf8',
        stdio: ['ignore', 'pipe', 'ignore'],
      }),
    )
    const tarball = readFileSync(path.join(directory, filename))
    const { problems = [] } = await checkPackage(createPackageFromTarballData(tarball))
    return problems.filter(({ kind }) => kind !== 'CJSResolvesToESM')
  }

  it('is each package after those that it depends on', () => {
    expect(staged.map(({ name }) => name)).toEqual(NAMES)
    for (const [index, { manifest }] of PACKAGES.entries())
      for (const name of Object.keys(manifest.dependencies ?? {}).filter((n) => NAMES.includes(n)))
        expect(NAMES.indexOf(name)).toBeLessThan(index)
  })

  it.each(NAMES)('publint finds nothing in %s', async (name) => {
    expect(await publintMessages(stagedOf(name))).toEqual([])
    expect(JSON.stringify(manifestIn(stagedOf(name)))).not.toContain('akri-source')
  })

  it.each(PACKAGES)('each link of a page in $name leads to a file', ({ name, folder }) => {
    const staged = stagedOf(name)
    const pages = readdirSync(staged).filter((file) => file.endsWith('.md'))
    expect(pages).toContain('README.md')
    const start = `${SOURCE}/blob/v${manifestOf(folder).version}/`
    for (const page of pages) {
      const text = readFileSync(path.join(staged, page), 'utf8')
      for (const [, link] of text.matchAll(/\]\(([^)\s#]+)/g)) {
        const file = link.startsWith(start)
          ? path.join(root, link.slice(start.length))
          : path.join(staged, link)
        if (link.startsWith(start) || !/^[a-z][a-z+.-]*:/i.test(link))
          expect([page, link, existsSync(file)]).toEqual([page, link, true])
      }
    }
  })

  it.each(PACKAGES)('stacks of $name have the names of its sources', ({ name, folder }) => {
    const sources = filesIn(path.join(root, folder, 'src'), /(?<!\.test)\.ts$/)
    const modules = filesIn(path.join(stagedOf(name), 'dist'), /\.js$/)
    const words = new Set(modules.flatMap((text) => text.match(/\w+/g)))
    const names = sources.flatMap((text) =>
      [...text.matchAll(/^(?:export )?(?:async )?function\*? (\w{8,})/gm)].map(
        ([, found]) => found,
      ),
    )
    const kept = names.filter((found) => words.has(found))
    // Some functions are only for tests, or are in line where they are called.
    expect([name, kept.length > names.length * 0.7, names.length > 0]).toEqual([name, true, true])
  })

  // A program has no types to find.
  const libraries = PACKAGES.filter(({ manifest }) => manifest.exports !== undefined)
  it.each(libraries)('all versions of TypeScript find the types of $name', async ({ name }) => {
    expect(await typeProblems(stagedOf(name))).toEqual([])
  })

  it('is not staged without a file that its package.json names', () => {
    const [sdk] = PACKAGES.filter(({ name }) => name === '@akrijs/sdk')
    const exports = { '.': { types: './dist/none.d.ts', default: './dist/index.js' } }
    const lacking = { ...sdk, manifest: { ...sdk.manifest, exports } }
    expect(() => stagePackages(path.join(directory, 'lacking'), SOURCE, [lacking])).toThrow(
      'sdk has no dist/none.d.ts: run npm run build',
    )
  })
})
