import { spawnSync } from 'node:child_process'
import {
  cpSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { load } from 'js-yaml'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { publishedPackages } from '../../scripts/published.mjs'
import { packageWithVersion, releasedChangelog, withVersion } from '../../scripts/version.mjs'
import { manifestOf, root, workspaces } from '../../scripts/workspaces.mjs'

const FROM = manifestOf('.').version
const TO = `${Number(FROM.split('.')[0]) + 1}.0.0`

describe('the version of akri.js', () => {
  it.each([
    'Up to version 1.2.3, agents',
    '  version: 1.2.3',
    'akri-agent:1.2.30',
    'akri-agent:1.2.3.4',
    'akri-agent:1.2.3-rc.1',
    'akri-agent:1x2.3',
    '11.2.3.0/16',
    '"zod": "1.2.3"',
    '  "version": "1.2.3",',
    'my-sensor-1.2.3.tgz',
  ])('stays in %j', (text) => {
    expect(withVersion(text, '1.2.3', '2.0.0')).toBe(text)
  })

  it('changes in the ranges of packages of ours, and of no others', () => {
    const names = new Set(['@akrijs/sdk', '@akrijs/kube'])
    const manifest = {
      version: '1.2.3',
      dependencies: { '@akrijs/sdk': '1.2.3', zod: '1.2.3' },
      peerDependencies: { '@akrijs/kube': '^1.2.3' },
    }
    expect(packageWithVersion(manifest, names, '1.2.3', '2.0.0')).toEqual({
      version: '2.0.0',
      dependencies: { '@akrijs/sdk': '2.0.0', zod: '1.2.3' },
      peerDependencies: { '@akrijs/kube': '^2.0.0' },
    })
  })

  it('gets a part of the changelog with its date', () => {
    const text = '# Changelog\n\n## Unreleased\n\n- a change\n\n## 1.2.3\n'
    expect(releasedChangelog(text, '2.0.0', '2026-11-23')).toBe(
      '# Changelog\n\n## Unreleased\n\n## 2.0.0 - 2026-11-23\n\n- a change\n\n## 1.2.3\n',
    )
  })
})

describe('a release', () => {
  let copy
  let directory
  let tree

  /** A copy of this tree, as it is now, with a commit. */
  beforeAll(() => {
    copy = mkdtempSync(path.join(os.tmpdir(), 'akri-release-'))
    tree = copy
    const { stdout } = spawnSync('git', ['ls-files', '-z', '-co', '--exclude-standard'], {
      cwd: root,
      encoding: 'utf8',
      maxBuffer: 2 ** 26,
    })
    for (const file of stdout.split('\0').filter((name) => existsSync(path.join(root, name))))
      if (file !== '') cpSync(path.join(root, file), path.join(tree, file))
    // Changes of this release come from the tests.
    for (const file of readdirSync(path.join(tree, '.changeset')))
      if (file.endsWith('.md')) rmSync(path.join(tree, '.changeset', file))
    symlinkSync(path.join(root, 'node_modules'), path.join(tree, 'node_modules'))
    git('init', '--quiet', '--initial-branch=main')
    name()
    commit()
  })
  afterAll(() => rmSync(copy, { recursive: true, force: true, maxRetries: 3 }))

  beforeEach(() => {
    directory = mkdtempSync(path.join(os.tmpdir(), 'akri-release-'))
    tree = directory
    git('clone', '--quiet', '--bare', copy, 'remote')
    git('clone', '--quiet', 'remote', 'tree')
    tree = path.join(directory, 'tree')
    name()
  })
  afterEach(() => rmSync(directory, { recursive: true, force: true, maxRetries: 3 }))

  function run(command, ...args) {
    const { status, stdout, stderr } = spawnSync(command, args, {
      cwd: tree,
      encoding: 'utf8',
      maxBuffer: 2 ** 26,
      // Without the repository that a hook of git works in.
      env: { ...process.env, GIT_DIR: undefined, GIT_INDEX_FILE: undefined, CI: '1' },
    })
    return { status, stdout: stdout.trimEnd(), stderr }
  }
  function git(...args) {
    const result = run('git', ...args)
    expect(result).toMatchObject({ status: 0 })
    return result.stdout
  }
  const name = () => {
    git('config', 'user.name', 'A maintainer')
    git('config', 'user.email', 'maintainer@example.org')
  }
  const commit = () => {
    git('add', '--all')
    git('commit', '--quiet', '--message', 'x')
  }
  const script = (name) => run(process.execPath, `scripts/${name}.mjs`)
  const text = (file) => readFileSync(path.join(tree, file), 'utf8')
  const json = (file) => JSON.parse(text(file))

  it('has one version everywhere, a changelog of each package, and a tag', () => {
    const change = '---\n"@akrijs/handler-udev": major\n---\n\nA change of udev.\n'
    writeFileSync(path.join(tree, '.changeset/a-change.md'), change)
    commit()
    expect(script('version')).toMatchObject({
      status: 0,
      stdout: expect.stringContaining(`${FROM} -> ${TO}`),
    })

    const lock = json('package-lock.json')
    expect([json('package.json').version, lock.version, lock.packages[''].version]).toEqual([
      TO,
      TO,
      TO,
    ])
    for (const { folder } of workspaces()) {
      const { version, dependencies = {}, devDependencies = {} } = json(`${folder}/package.json`)
      expect([folder, version]).toEqual([folder, TO])
      expect(lock.packages[folder]).toMatchObject({ version })
      const ranges = Object.entries({ ...dependencies, ...devDependencies })
      for (const [name, range] of ranges.filter(([name]) => name.startsWith('@akrijs/')))
        expect([folder, name, range]).toEqual([folder, name, TO])
      expect(lock.packages[folder].dependencies ?? {}).toEqual(dependencies)
    }
    const chart = load(text('deploy/helm/akri/Chart.yaml'))
    expect([chart.version, chart.appVersion]).toEqual([TO, TO])

    // What is left tells of the version before. Bills of materials come from the next build.
    const others = ['**/CHANGELOG.md', '**/sbom.cdx.json', 'docs/decisions/**']
    const ofOthers = ['test/release/*.test.mjs', 'package-lock.json']
    const left = run(
      'git',
      ...['grep', '-I', '-n', '-P', `(?<![\\d.])\\Q${FROM}\\E(?![\\d.]*\\d)`, '--'],
      ...[...others, ...ofOthers].map((files) => `:(exclude,glob)${files}`),
    )
    const history = /\b(from|versions?|akri\.js) \d|:\d+:\d\S+ created/i
    // The project of an author has a version of its own.
    const ofAuthor =
      /^create-handler\/templates\/(?!.*(@akrijs\/|akri-agent))|^test\/.*(\bme-|\{NAME\})/
    const lines = left.stdout
      .split('\n')
      .filter((line) => !history.test(line) && !ofAuthor.test(line))
    expect(lines.join('\n')).toBe('')

    expect(text('CHANGELOG.md')).toMatch(
      new RegExp(`^## Unreleased\\n\\n## ${TO} - \\d{4}-\\d{2}-\\d{2}$`, 'm'),
    )
    for (const { name, folder } of publishedPackages())
      expect(text(`${folder}/CHANGELOG.md`).startsWith(`# ${name}\n\n## ${TO}\n`)).toBe(true)
    expect(text('handlers/udev/CHANGELOG.md')).toContain('A change of udev.')
    expect(existsSync(path.join(tree, '.changeset/a-change.md'))).toBe(false)

    expect(script('tag')).toMatchObject({ status: 0 })
    expect(git('status', '--porcelain')).toBe('')
    expect(git('log', '-1', '--format=%s')).toBe(`release: ${TO}`)
    const remote = (ref) => git('--git-dir', '../remote', 'rev-parse', `${ref}^{commit}`)
    expect([remote('main'), remote(`v${TO}`)]).toEqual([
      git('rev-parse', 'HEAD'),
      git('rev-parse', 'HEAD'),
    ])
  })

  it('is refused without a described change, and with changes that are not committed', () => {
    expect(script('version')).toMatchObject({
      status: 1,
      stderr: expect.stringContaining('.changeset describes no change'),
    })
    expect(git('status', '--porcelain')).toBe('')
    writeFileSync(path.join(tree, 'README.md'), 'x')
    expect(script('version')).toMatchObject({
      status: 1,
      stderr: expect.stringContaining('the working tree has changes'),
    })
  })

  it('pushes no tag if the branch of the remote has more', () => {
    git('commit', '--quiet', '--allow-empty', '--message', 'a change of others')
    git('push', '--quiet', 'origin', 'main')
    git('reset', '--quiet', '--hard', 'HEAD~1')
    writeFileSync(path.join(tree, 'README.md'), 'x')
    expect(script('tag')).toMatchObject({
      status: 1,
      stderr: expect.stringContaining('git push failed'),
    })
    expect(git('ls-remote', '--tags', 'origin')).toBe('')
  })
})
