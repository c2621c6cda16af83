import { spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { IMAGES, WITH_OPCUA_CLIENT } from '../../scripts/image-contents.mjs'
import { contentBelow, filesBelow, isIgnored } from '../../scripts/images/build-steps.mjs'
import { allSteps, labelsOf, stagesOf } from '../../scripts/images/dockerfile.mjs'
import { unlocked } from '../../scripts/images/installed.mjs'
import { baseImage } from '../../scripts/shipped/sbom.mjs'
import { manifestOf, root, workspaces } from '../../scripts/workspaces.mjs'
import { describeUnless } from '../support/unless.js'

const text = (file) => readFileSync(path.join(root, file), 'utf8')
const DOCKERFILE = text('deploy/images/agent.Dockerfile')
const IGNORED = text('deploy/images/agent.Dockerfile.dockerignore')
const BAKE = JSON.parse(text('deploy/images/bake.json'))
/** The folders of the built-in handlers, in order. */
const HANDLERS = JSON.parse(readFileSync(path.join(root, 'handlers/built-in.json'), 'utf8'))
  .handlers.map(({ folder }) => path.basename(folder))
  .sort()
const TARGETS = { ...IMAGES, ...WITH_OPCUA_CLIENT }
const stages = stagesOf(DOCKERFILE)
const stageOf = (name) => stages.find((stage) => stage.name === name)
const VERSION = manifestOf('.').version
/** Of the nodes, as Node.js names them. */
const PLATFORMS = ['linux-arm64', 'linux-x64']

describe('the Dockerfile', () => {
  it('runs commands on the platform of the builder only, which needs no emulation', () => {
    const platformOf = ({ platform, from }) =>
      platform ?? (stageOf(from) === undefined ? undefined : platformOf(stageOf(from)))
    const running = stages.filter(({ steps }) => steps.some(({ keyword }) => keyword === 'RUN'))
    for (const stage of running)
      expect([stage.name, platformOf(stage)]).toEqual([stage.name, '$BUILDPLATFORM'])
  })

  it.each(Object.keys(TARGETS))(
    'runs %s as a user by number, which runAsNonRoot needs',
    (target) => {
      const steps = allSteps(stages, stageOf(target))
      expect(steps.findLast(({ keyword }) => keyword === 'USER')?.args).toEqual(['1000:1000'])
    },
  )

  it('makes all images, with the names of the bake file', () => {
    const withCommand = stages.filter((stage) =>
      allSteps(stages, stage).some(({ keyword }) => keyword === 'CMD'),
    )
    const named = withCommand.filter(({ name }) => name !== '')
    expect(named.map(({ name }) => name).sort()).toEqual(Object.keys(TARGETS).sort())
    expect(stages.at(-1)).toMatchObject({ name: '', from: 'all', steps: [] })
    const { common, ...targets } = BAKE.target
    expect(existsSync(path.join(root, common.dockerfile))).toBe(true)
    expect(BAKE.group.default.targets.sort()).toEqual(Object.keys(TARGETS).sort())
    expect(targets).toEqual(
      Object.fromEntries(
        Object.entries(TARGETS).map(([target, { name }]) => [
          target,
          { inherits: ['common'], target, tags: [`\${REGISTRY}/${name}:\${VERSION}`] },
        ]),
      ),
    )
  })

  it.each(Object.entries(TARGETS))('labels %s', (target, { name }) => {
    const labels = labelsOf(stages, stageOf(target))
    expect(labels).toEqual({
      'org.opencontainers.image.title': name,
      'org.opencontainers.image.description': expect.stringContaining('Akri'),
      'org.opencontainers.image.version': '$VERSION',
      'org.opencontainers.image.revision': '$REVISION',
      'org.opencontainers.image.source': '$SOURCE',
      'org.opencontainers.image.licenses': manifestOf('.').license,
    })
  })

  it('starts from one base image, which has a digest', () => {
    expect(baseImage()).toMatchObject({ name: 'node' })
    const own = ['scratch', ...stages.map(({ name }) => name)]
    const others = stages.map(({ from }) => from).filter((from) => !own.includes(from))
    // biome-ignore lint/suspicious/noTemplateCurlyInString: a variable of the Dockerfile
    expect([...new Set(others)]).toEqual(['${NODE_IMAGE}'])
  })

  it('installs from the files that npm reads alone, before it has a source', () => {
    const { steps } = stageOf('dependencies')
    const copied = steps.flatMap(({ keyword, args }) =>
      keyword === 'COPY' ? args.slice(0, -1) : [],
    )
    const manifests = workspaces().map(({ folder }) => `${folder}/package.json`)
    expect(copied.sort()).toEqual(
      ['.npmrc', 'package.json', 'package-lock.json', ...manifests].sort(),
    )
    expect(steps.at(-1)).toMatchObject({
      keyword: 'RUN',
      text: expect.stringMatching(/^npm install --no-save --/),
    })
    // What npm reads is in the context.
    expect(copied.filter((file) => isIgnored(file, IGNORED))).toEqual([])
  })

  it('builds without a network', () => {
    const run = stageOf('build').steps.filter(({ keyword }) => keyword === 'RUN')
    expect(run.map(({ flags }) => flags)).toEqual([{ network: 'none' }])
  })
})

describe('the installed packages', () => {
  const lock = {
    '': { name: 'akri' },
    agent: { name: '@akrijs/agent' },
    'node_modules/@akrijs/agent': { link: true },
    'node_modules/a': { version: '1.0.0', integrity: 'sha512-a' },
    'node_modules/b': { version: '1.0.0', integrity: 'sha512-b', optional: true },
  }
  it('are those of the lock file, or fewer', () => {
    const { 'node_modules/b': _, ...installed } = lock
    expect(unlocked(installed, lock)).toEqual([])
    expect(unlocked(lock, lock)).toEqual([])
  })

  it.each([
    ['another package', 'node_modules/c', { version: '1.0.0', integrity: 'sha512-c' }],
    ['a package inside of another', 'node_modules/a/node_modules/b', lock['node_modules/b']],
    ['other bytes', 'node_modules/a', { version: '1.0.0', integrity: 'sha512-x' }],
    ['bytes without a digest', 'node_modules/a', { version: '1.0.0' }],
    ['another version', 'node_modules/a', { version: '1.0.1', integrity: 'sha512-a' }],
    ['a link to elsewhere', 'node_modules/a', { link: true, resolved: '/tmp/a' }],
  ])('are refused with %s', (_, folder, entry) => {
    expect(unlocked({ ...lock, [folder]: entry }, lock)).toEqual([folder])
  })
})

const built = existsSync(path.join(root, 'agent/dist/akri-agent.js'))
describeUnless(built ? [] : ['npm run build'], 'the trees of all images', () => {
  let trees

  beforeAll(() => {
    trees = mkdtempSync(path.join(os.tmpdir(), 'akri-trees-'))
    const script = path.join(root, 'scripts/image-trees.mjs')
    const { status, stderr } = spawnSync(process.execPath, [script, trees], { encoding: 'utf8' })
    expect([status, stderr]).toEqual([0, ''])
  })
  afterAll(() => rmSync(trees, { recursive: true, force: true }))

  it('hold a native file for each platform, or none', () => {
    const native = filesBelow(trees).flatMap((file) => {
      const platform = platformOfFile(readFileSync(path.join(trees, file)))
      return platform === undefined ? [] : [[file, platform]]
    })
    expect(native.length).toBeGreaterThan(0)
    // A directory that is named by its platform, so that the program takes the right file.
    for (const [file, platform] of native)
      expect(file).toMatch(new RegExp(`/(prebuilds/|usb-)${platform}(-gnu)?/`))
    const families = {}
    for (const [file, platform] of native) {
      // The directory of a layer is named by the architecture, as builders name it.
      const family = file.replaceAll(platform, '*').replace(/^usb-(amd64|arm64)/, 'usb-*')
      families[family] = [...(families[family] ?? []), platform].sort()
    }
    for (const found of Object.entries(families)) expect(found).toEqual([found[0], PLATFORMS])
  })

  it.each([
    ['all', ['agent', 'cleanup', 'controller', 'webhook'], HANDLERS],
    ['agent', ['agent'], ['debug-echo', 'udev', 'usb']],
    ['controller', ['cleanup', 'controller'], []],
    ['webhook', ['webhook'], HANDLERS],
    ['handlers', [], HANDLERS],
  ])('of %s has its programs and handlers, licences and bill', (image, programs, handlers) => {
    const content = contentBelow(path.join(trees, image, 'app'))
    const files = Object.keys(content)
    const named = (pattern) => files.flatMap((file) => pattern.exec(file)?.[1] ?? []).sort()
    expect(named(/^akri-(.*)\.js$/)).toEqual(programs)
    expect(named(/^node_modules\/@akrijs\/handler-([^/]+)\/package\.json$/)).toEqual(handlers)
    expect(named(/^node_modules\/@akrijs\/(sdk)\/package\.json$/)).toEqual(
      handlers.length > 0 ? ['sdk'] : [],
    )
    const { name } = IMAGES[image]
    expect(JSON.parse(content['package.json'])).toMatchObject({ name, version: VERSION })
    const bill = JSON.parse(content['sbom.cdx.json'])
    expect(bill.metadata.component).toMatchObject({ name, version: VERSION })
    // The bill is that of the tree: of the packages of the repository, it has those of the image.
    const ours = bill.components.flatMap(({ group, name }) => (group === '@akrijs' ? [name] : []))
    const expected = [
      ...programs.filter((program) => program !== 'cleanup'),
      ...handlers.map((handler) => `handler-${handler}`),
      ...(handlers.length > 0 ? ['sdk'] : []),
      // The program akri has a folder of its own.
      ...(image === 'all' ? ['cli'] : []),
    ]
    expect(ours.sort()).toEqual(expected.sort())
    const notices = String(content['THIRD-PARTY-NOTICES.txt'])
    expect(notices).toContain(`The image ${name} contains`)
    const others = bill.components.filter(
      ({ group, purl = '' }) => group !== '@akrijs' && purl.startsWith('pkg:npm/'),
    )
    expect(others.length).toBeGreaterThan(0)
    for (const { group, name, scope } of others)
      if (scope !== 'optional')
        expect(notices).toContain(`\n${group === undefined ? name : `${group}/${name}`} `)
    expect(String(content.LICENSE)).toContain('Apache License')
  })

  it.each(Object.keys(IMAGES))('of %s starts, with the files of the image with all', (image) => {
    const app = path.join(trees, image, 'app')
    const { text } = allSteps(stages, stageOf(image)).findLast(({ keyword }) => keyword === 'CMD')
    const [program] = JSON.parse(text)
    const file = path.join(trees, image, program)
    const run = spawnSync(process.execPath, [file, '--version'], { cwd: app, encoding: 'utf8' })
    expect([run.stdout, run.stderr]).toEqual([`${VERSION}\n`, ''])
    const all = contentBelow(path.join(trees, 'all/app'))
    const about = ['package.json', 'sbom.cdx.json', 'THIRD-PARTY-NOTICES.txt']
    for (const [name, content] of Object.entries(contentBelow(app)))
      if (!about.includes(name)) expect([name, all[name]?.equals(content)]).toEqual([name, true])
  })
})

/** The platform of machine code, by what the file begins with; undefined for all else. */
function platformOfFile(content) {
  const start = content.subarray(0, 4).toString('hex')
  if (start === '7f454c46') {
    const machine = content.readUInt16LE(18)
    return `linux-${{ 62: 'x64', 183: 'arm64' }[machine] ?? machine}`
  }
  if (/^(4d5a|feedfac[ef]|c[ef]faedfe|cafebabe|0061736d)/.test(start)) return `other: ${start}`
  return undefined
}
