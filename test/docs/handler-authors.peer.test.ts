import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir } from 'node:fs/promises'
import path from 'node:path'
import { SimulatedAgent } from '@akrijs/sdk/testing'
import { afterAll, beforeAll, expect, it } from 'vitest'
import builtIn from '../../handlers/built-in.json' with { type: 'json' }
import { missingRegistry, startRegistry } from '../../scripts/test-registry.mjs'
import { buildImage, missingPackages, PackedPackages } from '../create-handler/support/packages.js'
import { describeUnless } from '../support/unless.js'
import { AuthorReader, BLOCKS, OF_REGISTRY } from './author-reader.js'

const missing = [missingRegistry() ?? [], missingPackages()].flat()
const HANDLERS = builtIn.handlers.map((handler) => handler.package.replace('@akrijs/', ''))

describeUnless(missing, 'the page for authors, with a registry', () => {
  let reader: AuthorReader
  let registry: Awaited<ReturnType<typeof startRegistry>> | undefined

  beforeAll(async () => {
    reader = await AuthorReader.begin()
    registry = await startRegistry(reader.directory)
    reader.useRegistry(registry.env)
    const packed = path.join(reader.directory, 'packed')
    await mkdir(packed)
    const packages = await PackedPackages.pack(packed, ['zod'])
    for (const name of ['zod', 'sdk', ...HANDLERS, 'cli', 'create-handler']) {
      const tarball = packages.of(name === 'zod' ? name : `@akrijs/${name}`)
      const publish = `npm publish --ignore-scripts --no-provenance --silent ${tarball}`
      expect(await reader.run(publish)).toEqual([0, expect.anything()])
    }
  })

  afterAll(async () => {
    await reader.close()
    registry?.close()
  })

  it('R67 the commands print what the page shows', async () => {
    await reader.follow(BLOCKS.filter(({ section }) => !OF_REGISTRY.includes(section)))
  }, 600_000)

  it('R67 the Dockerfile of the page gives an image whose command serves the handler', async () => {
    const stages = path.join(reader.directory, 'stages')
    await mkdir(stages)
    const { npm_config_userconfig = '' } = registry?.env ?? {}
    const { app, command } = await buildImage(reader.cwd, stages, { npm_config_userconfig })
    const [program = '', ...args] = command
    const agent = await SimulatedAgent.start()
    const child = spawn(path.join(app, program), args, {
      cwd: app,
      env: {
        PATH: `${path.dirname(process.execPath)}:${process.env.PATH}`,
        DISCOVERY_HANDLERS_DIRECTORY: agent.directory,
        LOG_LEVEL: 'warn',
      },
      stdio: 'inherit',
    })
    const ended = once(child, 'exit')
    try {
      const session = await agent.discover('printers', { details: 'model: LX-350' })
      expect(await session.next(120_000)).toMatchObject([{ id: 'usb-1' }])
    } finally {
      child.kill()
      await ended
      await agent.close()
    }
  })

  it.each(OF_REGISTRY)(
    'R67 the commands of the section "%s" print what it shows',
    async (name) => {
      await reader.follow(BLOCKS.filter(({ section }) => section === name))
    },
    600_000,
  )
})
