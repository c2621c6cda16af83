import { spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { load } from 'js-yaml'
import { beforeEach, describe, expect, it } from 'vitest'
import { IMAGES, WITH_OPCUA_CLIENT } from '../../scripts/image-contents.mjs'
import { manifestOf, root } from '../../scripts/workspaces.mjs'

const FOLDER = '.github/workflows'
const WORKFLOWS = [
  ...readdirSync(path.join(root, FOLDER)).map((file) => path.join(FOLDER, file)),
  'create-handler/templates/javascript/.github/workflows/publish.yml',
]
const text = (file) => readFileSync(path.join(root, file), 'utf8')
const RELEASE = load(text(`${FOLDER}/release.yml`))

/** What is wrong with a workflow, by its text. */
function workflowProblems(source) {
  const { permissions, jobs } = load(source)
  const problems = []
  if (JSON.stringify(permissions) !== '{}')
    problems.push('permissions of the workflow should be {}')
  for (const [, used] of source.matchAll(/\buses: (.*)/g))
    if (!/^[\w.-]+\/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$/.test(used))
      problems.push(`${used} should have a commit, and its version in a comment`)
  for (const [name, job] of Object.entries(jobs)) {
    if (typeof job.permissions !== 'object') problems.push(`${name} names no permissions`)
    if (job['timeout-minutes'] === undefined) problems.push(`${name} can run for hours`)
    if (/latest/.test(job['runs-on']))
      problems.push(`${name} should name the version of its system`)
    for (const step of job.steps) {
      if (
        step.uses?.startsWith('actions/checkout@') &&
        step.with?.['persist-credentials'] !== false
      )
        problems.push(`${name} leaves its credentials in the clone`)
      // GitHub writes the value into the script: a name of a tag or a branch could be a command.
      if (/\$\{\{/.test(step.run ?? '')) problems.push(`${name}: an expression in a script`)
    }
  }
  return problems
}

describe('a workflow', () => {
  it.each(WORKFLOWS)('has pinned actions, few rights and no expressions in scripts: %s', (file) => {
    expect(workflowProblems(text(file))).toEqual([])
  })
})

describe('the release', () => {
  const steps = Object.entries(RELEASE.jobs).flatMap(([job, { steps }]) =>
    steps.map((step) => ({ job, ...step })),
  )
  const scripts = steps.flatMap(({ run }) => (run === undefined ? [] : [run]))

  it('starts with a tag, and only from jobs that need the checks', () => {
    expect(RELEASE.on).toEqual({ push: { tags: ['v*'] } })
    const needed = (job) => {
      const next = RELEASE.jobs[job].needs
      return next === undefined ? job : needed(next)
    }
    for (const job of Object.keys(RELEASE.jobs)) expect(needed(job)).toBe('check')
  })

  it('has scripts that bash reads', () => {
    for (const script of scripts) {
      const { status, stderr } = spawnSync('bash', ['-n'], { input: script, encoding: 'utf8' })
      expect([status, stderr]).toEqual([0, ''])
    }
  })

  it('calls scripts and reads files that exist', () => {
    const all = scripts.join('\n')
    const files = all.match(/\b(scripts|deploy)\/[\w./-]*\w/g) ?? []
    expect(files).toContain('scripts/publish.mjs')
    for (const file of files)
      expect([file, existsSync(path.join(root, file))]).toEqual([file, true])
    const commands = [...all.matchAll(/npm run ([\w:-]+)/g)].map(([, name]) => name)
    expect(commands).toContain('check')
    for (const name of commands) expect(manifestOf('.').scripts).toHaveProperty(name)
  })

  it('passes the variables of the bake file on', () => {
    const { variable } = JSON.parse(text('deploy/images/bake.json'))
    const [build] = scripts.filter((script) => script.includes('bake.json'))
    for (const name of Object.keys(variable))
      expect(RELEASE.env[name] !== undefined || build.includes(`${name}=`)).toBe(true)
    for (const option of [
      '--push',
      '--provenance=mode=max',
      '--sbom=true',
      'linux/amd64,linux/arm64',
    ])
      expect(build).toContain(option)
  })

  it('signs each image and its bill of materials, the chart and the npm packages', () => {
    const scriptsOf = (job) => RELEASE.jobs[job].steps.map(({ run = '' }) => run).join('\n')
    expect(scriptsOf('images')).toMatch(/cosign sign --yes --recursive "\$image"/)
    expect(scriptsOf('images')).toMatch(/cosign attest .*--predicate "trees\/\$target\/app\/sbom/)
    expect(scriptsOf('chart')).toContain('cosign sign --yes "$registry/charts/akri@$digest"')
    // publishConfig of each package asks for the provenance.
    expect(scriptsOf('npm')).toMatch(/^node scripts\/publish\.mjs "\$SOURCE"$/m)
  })
})

describe('the released chart', () => {
  const source = 'https://git.example/owner/akri'
  let directory
  beforeEach(() => {
    directory = mkdtempSync(path.join(os.tmpdir(), 'akri-released-'))
  })

  function release(SOURCE, registry = 'ghcr.io/example') {
    const script = path.join(root, 'scripts/released-chart.mjs')
    const env = { ...process.env, SOURCE }
    const { status, stderr } = spawnSync(process.execPath, [script, directory, registry], {
      env,
      encoding: 'utf8',
    })
    return { status, stderr }
  }

  it('names its image, and the runbooks of its version', () => {
    expect(release(source)).toEqual({ status: 0, stderr: '' })
    const { image, prometheus } = load(
      readFileSync(path.join(directory, 'akri/values.yaml'), 'utf8'),
    )
    expect(image.repository).toBe(`ghcr.io/example/${IMAGES.all.name}`)
    const { version } = manifestOf('.')
    expect(prometheus.rules.runbooks).toBe(`${source}/blob/v${version}/docs/runbooks.md`)
  })

  it.each(['', 'git.example/owner/akri', `${source}.git`])(
    'is refused without its source: %j',
    (s) =>
      expect(release(s)).toEqual({
        status: 1,
        stderr: expect.stringMatching(/^released-chart: SOURCE: .* is not an address/),
      }),
  )
})

describe('the list of released images', () => {
  const DIGEST = `sha256:${'0a'.repeat(32)}`
  const targets = Object.entries({ ...IMAGES, ...WITH_OPCUA_CLIENT })
  let directory
  beforeEach(() => {
    directory = mkdtempSync(path.join(os.tmpdir(), 'akri-released-'))
  })

  function listOf(metadata) {
    const file = path.join(directory, 'images.json')
    writeFileSync(file, JSON.stringify(metadata))
    const script = path.join(root, 'scripts/released-images.mjs')
    const { status, stdout } = spawnSync(process.execPath, [script, file], { encoding: 'utf8' })
    return { status, lines: stdout.trim().split('\n') }
  }

  const pushed = (registry) => ({
    'buildx.build.warnings': [],
    ...Object.fromEntries(
      targets.map(([target, { name }]) => [
        target,
        { 'image.name': `${registry}/${name}:0.1.0`, 'containerimage.digest': DIGEST },
      ]),
    ),
  })

  it.each(['ghcr.io/example', 'registry.example:5000/akri'])('has digests: %s', (registry) => {
    expect(listOf(pushed(registry))).toEqual({
      status: 0,
      lines: targets.map(([target, { name }]) => `${target} ${registry}/${name}@${DIGEST}`),
    })
  })

  it.each([
    ['lacks a target', { agent: undefined }],
    ['has a target without a digest', { agent: { 'image.name': 'a/b:1' } }],
    ['has two names', { agent: { 'image.name': 'a/b:1,a/b:2', 'containerimage.digest': DIGEST } }],
    ['has another digest', { agent: { 'image.name': 'a/b:1', 'containerimage.digest': 'x $(y)' } }],
  ])('is refused if the file of the builder %s', (_, change) => {
    expect(listOf({ ...pushed('ghcr.io/example'), ...change }).status).toBe(1)
  })
})
