import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { SimulatedAgent } from '@akrijs/sdk/testing'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { LANGUAGES, type Language } from '../../create-handler/src/template.js'
import { eventually } from '../support/eventually.js'
import { describeUnless } from '../support/unless.js'
import {
  authorEnvironment,
  buildImage,
  filesOf,
  INSTALL,
  missingPackages,
  PackedPackages,
  runIn,
} from './support/packages.js'

/** What the projects need of others. */
const OTHERS = ['zod', 'typescript', '@types/node', 'undici-types']
/** What `npm test` of a project reports: `node:test` says how many tests passed. */
const PASSED = /^(# |ℹ )pass 3$/m

describeUnless(missingPackages(), 'from packed tarballs', () => {
  let directory: string
  let packages: PackedPackages

  beforeAll(async () => {
    directory = await mkdtemp(path.join(os.tmpdir(), 'akri-author-'))
    packages = await PackedPackages.pack(directory, OTHERS)
  })
  afterAll(() => rm(directory, { recursive: true, force: true }))

  describe.each(LANGUAGES)('a handler in %s', (language) => {
    const name = `pump-${language}`
    let project: string

    beforeAll(async () => {
      await packages.create(directory, name, '--name', `@me/${name}`, '--language', language)
      project = path.join(directory, name)
      await runIn(project, 'npm', ...INSTALL)
    })

    it('is installed from its tarballs, also a second time by its package-lock.json', async () => {
      const lock = await readFile(path.join(project, 'package-lock.json'), 'utf8')
      expect(JSON.parse(lock).packages['node_modules/@akrijs/cli']).toMatchObject({
        version: '0.1.0',
        resolved: 'file:vendor/akrijs-cli-0.1.0.tgz',
        dev: true,
      })
      await runIn(project, 'npm', 'ci', '--offline', '--silent')
      expect(await readFile(path.join(project, 'package-lock.json'), 'utf8')).toBe(lock)
    })

    it('passes its tests, without a cluster', async () => {
      expect((await runIn(project, 'npm', 'test')).stdout).toMatch(PASSED)
    })

    it('has a Configuration whose details the handler takes', async () => {
      const validate = (file: string) => runIn(project, 'npx', 'akri', 'validate', file)
      expect((await runIn(project, 'npm', 'run', 'validate')).stdout).toContain(
        '1 Configuration in 1 file: 0 problems, 0 warnings',
      )
      expect((await validate('deploy')).stdout).toContain(
        '1 Configuration in 2 files: 0 problems, 1 warning',
      )
      const text = await readFile(path.join(project, 'deploy/configuration.yaml'), 'utf8')
      await writeFile(path.join(directory, `${name}.yaml`), text.replace('/dev/null', '/etc'))
      await expect(validate(`../${name}.yaml`)).rejects.toThrow('is not a path such as /dev/video0')
    })

    it('shows its device, and what it leaves out', async () => {
      const found = await runIn(project, 'npm', 'run', 'discover')
      expect(found.stdout).toMatch(
        /^\/dev\/null +PUMP_\w+_DEVICE=\/dev\/null PUMP_\w+_KIND=character +\/dev\/null:rw$/m,
      )
      expect(found.stdout).toMatch(/^ +mounts: \/etc\/hostname:\/run\/pump-\w+\/hostname:ro$/m)
      const details = ['--details-text', 'paths: [/dev/zero, /dev/none-such]']
      const json = await runIn(project, 'npx', 'akri', 'discover', './', ...details, '--json')
      const prefix = name.toUpperCase().replace('-', '_')
      expect(JSON.parse(json.stdout)).toMatchObject({
        devices: [
          {
            id: '/dev/zero',
            properties: { [`${prefix}_DEVICE`]: '/dev/zero' },
            deviceSpecs: [{ hostPath: '/dev/zero', permissions: 'rw' }],
            mounts: [{ hostPath: '/etc/hostname', readOnly: true }],
          },
        ],
        leftOut: [{ id: '/dev/none-such', reason: 'is not a device node' }],
      })
    })

    it('is started again by npm run watch after a change of its source', async () => {
      const file = path.join(project, language === 'javascript' ? 'handler.js' : 'src/handler.ts')
      const source = await readFile(file, 'utf8')
      const args = ['run', '--silent', 'watch', '--', '--json']
      // A group of its own, as a shell starts it: Ctrl-C is for all its processes.
      const child = spawn('npm', args, {
        cwd: project,
        env: authorEnvironment(),
        detached: true,
        stdio: ['ignore', 'pipe', 'inherit'],
      })
      const ended = once(child, 'exit')
      let output = ''
      child.stdout.on('data', (chunk) => {
        output += String(chunk)
      })
      try {
        await eventually(() => expect(output).toContain('_KIND":"character"'))
        await writeFile(file, source.replace('_KIND: kind', "_KIND: 'changed'"))
        await eventually(() => expect(output).toContain('_KIND":"changed"'))
      } finally {
        const group = -(child.pid ?? expect.fail('npm has not started'))
        process.kill(group, 'SIGINT')
        await ended
        // No compiler is left.
        await eventually(() => expect(() => process.kill(group, 0)).toThrow('ESRCH'))
        await writeFile(file, source)
      }
    })

    it('is packed without its tests, and serves others as a package', async () => {
      const packed = path.join(directory, `packed-${language}`)
      const user = path.join(directory, `user-${language}`)
      for (const folder of [packed, user]) await mkdir(folder)
      await runIn(project, 'npm', 'pack', '--silent', '--pack-destination', packed)
      const tarball = path.join(packed, `me-${name}-0.1.0.tgz`)
      const all = [tarball, packages.of('@akrijs/sdk'), packages.of('zod')]
      await runIn(user, 'npm', ...INSTALL, ...all)
      const installed = await filesOf(path.join(user, `node_modules/@me/${name}`))
      expect(installed).toEqual(PUBLISHED[language])
      const akri = path.join(project, 'node_modules/.bin/akri')
      const { stdout } = await runIn(user, akri, 'discover', `./node_modules/@me/${name}`)
      expect(stdout).toContain('/dev/null:rw')
    })

    it('has a Dockerfile whose image serves the handler', async () => {
      const stages = path.join(directory, `stages-${language}`)
      await mkdir(stages)
      const { app, command } = await buildImage(project, stages)
      expect(await filesOf(app)).toEqual(
        language === 'javascript'
          ? ['handler.js', 'package.json']
          : expect.arrayContaining(['dist/handler.js', 'package.json']),
      )
      // What only authors need is not there.
      expect(await readdir(path.join(app, 'node_modules/@akrijs'))).toEqual(['sdk'])
      const [, ...args] = command
      const agent = await SimulatedAgent.start()
      const env = { DISCOVERY_HANDLERS_DIRECTORY: agent.directory, LOG_LEVEL: 'warn' }
      const handler = spawn(process.execPath, args, { cwd: app, env, stdio: 'inherit' })
      const ended = once(handler, 'exit')
      try {
        const session = await agent.discover(name, { details: 'paths: [/dev/zero]' })
        expect(await session.next(45_000)).toMatchObject([{ id: '/dev/zero' }])
      } finally {
        handler.kill()
        await ended
        await agent.close()
      }
    })
  })
})

const PUBLISHED: Readonly<Record<Language, readonly string[]>> = {
  javascript: ['README.md', 'handler.js', 'package.json'],
  typescript: [
    'README.md',
    'dist/handler.d.ts',
    'dist/handler.js',
    'dist/handler.js.map',
    'package.json',
  ],
}
