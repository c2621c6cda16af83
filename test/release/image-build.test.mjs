import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { IMAGES, WITH_OPCUA_CLIENT } from '../../scripts/image-contents.mjs'
import {
  contentBelow,
  filesBelow,
  isIgnored,
  runDockerfile,
} from '../../scripts/images/build-steps.mjs'
import { allSteps, stagesOf } from '../../scripts/images/dockerfile.mjs'
import { root } from '../../scripts/workspaces.mjs'
import { describeUnless } from '../support/unless.js'

const DOCKERFILE = readFileSync(path.join(root, 'deploy/images/agent.Dockerfile'), 'utf8')
const IGNORED = readFileSync(path.join(root, 'deploy/images/agent.Dockerfile.dockerignore'), 'utf8')
/** What the base image has, as far as the Dockerfile names it. */
const BASE = [
  'opt/yarn-v1.22.22/bin/yarn',
  'usr/local/LICENSE',
  'usr/local/bin/corepack',
  'usr/local/bin/docker-entrypoint.sh',
  'usr/local/bin/node',
  'usr/local/bin/npm',
  'usr/local/bin/npx',
  'usr/local/bin/yarn',
  'usr/local/bin/yarnpkg',
  'usr/local/include/node/node_api.h',
  'usr/local/lib/node_modules/npm/package.json',
  'bin/sh',
]
const LEFT = ['bin/sh', 'usr/local/LICENSE', 'usr/local/bin/node']

const git = (...args) => spawnSync('git', args, { cwd: root, encoding: 'utf8' })
const isClone = git('rev-parse').status === 0
const built = existsSync(path.join(root, 'agent/dist/akri-agent.js'))
const missing = [...(isClone ? [] : ['a clone']), ...(built ? [] : ['npm run build'])]

describeUnless(missing, 'the steps of the Dockerfile', () => {
  let directory
  let stage

  beforeAll(async () => {
    directory = mkdtempSync(path.join(os.tmpdir(), 'akri-steps-'))
    const base = path.join(directory, 'base-image')
    for (const file of BASE) {
      mkdirSync(path.dirname(path.join(base, file)), { recursive: true })
      writeFileSync(path.join(base, file), '')
    }
    // npm install finds its packages, as links, and installs only what they lack.
    const withPackages = path.join(directory, 'installed')
    mkdirSync(path.join(withPackages, 'src'), { recursive: true })
    const packages = [path.join(root, 'node_modules'), path.join(withPackages, 'src')]
    expect(spawnSync('cp', ['-al', ...packages])).toMatchObject({ status: 0 })
    const files = git('ls-files', '-co', '--exclude-standard').stdout.trimEnd().split('\n')
    const registry = spawnSync('npm', ['config', 'get', 'registry'], { encoding: 'utf8' }).stdout
    stage = await runDockerfile({
      dockerfile: DOCKERFILE,
      directory,
      context: root,
      files: files.filter((file) => existsSync(path.join(root, file)) && !isIgnored(file, IGNORED)),
      // The steps run with Node.js of this machine.
      imageOf: (_image, stage) => (stage === 'dependencies' ? withPackages : base),
      args: {
        NPM_REGISTRY: registry.trim(),
        npm_config_prefer_offline: 'true',
        TARGETARCH: 'arm64',
      },
    })
  }, 1_200_000)
  afterAll(() => rmSync(directory, { recursive: true, force: true }))

  it('give images without npm, whose base has all else', () => {
    expect(filesBelow(stage('base'))).toEqual(LEFT)
  })

  it.each(Object.keys({ ...IMAGES, ...WITH_OPCUA_CLIENT }))(
    'give %s the tree that the scripts make in the clone, and a command that is there',
    (target) => {
      const made = path.join(directory, 'trees')
      if (!existsSync(made)) {
        const script = path.join(root, 'scripts/image-trees.mjs')
        const { status } = spawnSync(process.execPath, [script, made], { stdio: 'ignore' })
        expect(status).toBe(0)
      }
      const below = WITH_OPCUA_CLIENT[target]?.below
      const expected = {
        ...(below === undefined ? {} : contentBelow(path.join(made, below, 'app'))),
        ...contentBelow(path.join(made, target, 'app')),
        ...(IMAGES[below ?? target].usb ? contentBelow(path.join(made, 'usb-arm64/app')) : {}),
      }
      const found = contentBelow(path.join(stage(target), 'app'))
      expect(Object.keys(found)).toEqual(Object.keys(expected).sort())
      const others = Object.keys(found).filter((file) => !found[file].equals(expected[file]))
      expect(others).toEqual([])
      const stages = stagesOf(DOCKERFILE)
      const { text } = allSteps(
        stages,
        stages.find(({ name }) => name === target),
      ).findLast(({ keyword }) => keyword === 'CMD')
      for (const file of JSON.parse(text))
        expect(existsSync(path.join(stage(target), file))).toBe(true)
    },
  )
})
